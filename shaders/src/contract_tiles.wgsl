// A matrix product: a workgroup computes a tile of the result, stepping through k with both
// operands' strips in workgroup memory; each invocation keeps a small tile in registers.
$declarations
$functions
const STRIP = $strip;
var<workgroup> left_strip: array<vec4<f32>, $left_size>;
var<workgroup> right_strip: array<vec4<f32>, $right_size>;

@compute @workgroup_size($workgroup)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Work past the end computes the last tile again, so that everyone reaches the barriers.
    let wanted = group.x + group.y * groups.x;
    let work = min(wanted, $works - 1u);
    let batch = work / $groups_per_batch;
    let place = work % $groups_per_batch;
    let tile_row = (place / $groups_across) * $tile_rows;
    let tile_column = (place % $groups_across) * $tile_columns;
    let lane_row = lane / $lanes_across;
    let lane_column = lane % $lanes_across;
    $before
    let k_end = $k;
    for (var start = 0u; start < k_end; start += STRIP) {
        $fill
        workgroupBarrier();
        for (var k = 0u; k < STRIP; k += 1u) {
            $step
        }
        workgroupBarrier();
    }
    if wanted >= $works {
        return;
    }
    $after
}
