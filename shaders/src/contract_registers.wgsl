// A matrix product for devices without fast workgroup memory: each invocation keeps a tile
// of the result in registers and adds one outer product per step of k.
$declarations
$functions
@compute @workgroup_size($workgroup)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let work = group.x + group.y * groups.x;
    let batch = work / $groups_per_batch;
    let place = work % $groups_per_batch;
    let tile_column = (place % $groups_across) * $lanes_across + lane % $lanes_across;
    let tile_row = (place / $groups_across) * $lanes_down + lane / $lanes_across;
    if batch >= $batches || tile_column >= $tiles_across || tile_row >= $tiles_down {
        return;
    }
    $before
    // There is one group along the third axis, so nothing is added; but Mesa's software driver
    // compiles a shader anew for each dispatch when a loop's end is an argument and no more.
    let k_end = $k + group.z;
    for (var k = 0u; k < k_end; k += 1u) {
        $step
    }
    $after
}
