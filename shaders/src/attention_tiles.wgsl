// Attention: an invocation keeps its own row (of a query, or of a key) in registers; a
// workgroup's rows are neighbours, and walk together along tiles of the other side, which lie
// in workgroup memory.
$declarations
$ranges
const TILE = $tile;
$shared

@compute @workgroup_size($workgroup)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Work past the end computes the last again, so that everyone reaches the barriers.
    let wanted = group.x + group.y * groups.x;
    let work = min(wanted, $works - 1u);
    let block = work % $blocks * $workgroup;
    let head = work / $blocks % $heads;
    let batch = work / ($blocks * $heads);
    let own = min(block + lane, $count - 1u);
    let inside = wanted < $works && block + lane < $count;
    $before
    let start = range_start(own);
    let end = range_end(own);
    let first = range_start(block);
    let last = range_end(min(block + $workgroup, $count) - 1u);
    for (var member = 0u; member < $members; member += 1u) {
        let other_head = $other_head;
        for (var tile = first; tile < last; tile += TILE) {
            $fill
            workgroupBarrier();
            for (var place = 0u; place < TILE; place += 1u) {
                let other = tile + place;
                if other >= start && other < end {
                    $load
                    $step
                }
            }
            workgroupBarrier();
        }
    }
    if !inside {
        return;
    }
    $after
}
