// Work with reductions along rows: $threads invocations share a row and combine what they
// found as a tree in workgroup memory.
$declarations
$functions
$shared
@compute @workgroup_size($workgroup)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first = lane % $threads;
    let wanted = (group.x + group.y * groups.x) * ($workgroup / $threads) + lane / $threads;
    // Everyone must reach the barriers: past the end the last row is computed again.
    let row = min(wanted, $rows - 1u);
    let inside = wanted < $rows;
    $body
}
