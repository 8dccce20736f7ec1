// Rows added into a table of zeros. Each invocation owns a strip of columns of one row of the
// result and goes through all indices in order, so that sums repeat bit by bit.
$declarations
@compute @workgroup_size($workgroup)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * $workgroup + lane;
    if item >= $items {
        return;
    }
    let row = item / $strips;
    let first = item % $strips;
    for (var column = first; column < $width; column += $strips) {
        $output[row * $width + column] = $real(0.0);
    }
    for (var i = 0u; i < $count; i += 1u) {
        if $indices[i] == row {
            for (var column = first; column < $width; column += $strips) {
                $output[row * $width + column] += $updates[i * $width + column];
            }
        }
    }
}
