// Rows of a table chosen by indices; an index outside the table gives NaN.
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
    let index = $indices[item / $width];
    let inside = index < $rows;
    let row = select(0u, index, inside);
    let value = $table[row * $width + item % $width];
    $output[item] = $rounded(select(bitcast<$real>($word(0x7fc00000u)), value, inside));
}
