// elementwise, [1, 1, 1] workgroups
// Elementwise work: one invocation per item, an item being one column, or four adjacent
// ones, of one row.
var<storage, read> b0: array<vec4<f32>>;
var<storage, read> b1: array<vec4<f32>>;
var<storage, read_write> b2: array<vec4<f32>>;
// The built-in may overflow into NaN and is inexact near 0. Near 0 a polynomial in x²,
// elsewhere from an exponential that cannot overflow.
fn tanh4(x: vec4<f32>) -> vec4<f32> {
    let z = x * x;
    let series = (((-0.00606223 * z + 0.020975012) * z - 0.053846695) * z + 0.13332747) * z - 0.33333328;
    let e = exp(-2.0 * abs(x));
    let far = (1.0 - e) / (1.0 + e);
    return select(select(far, -far, x < vec4<f32>(0.0)), x + x * (z * series), abs(x) < vec4<f32>(0.6));
}
@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * 64u + lane;
    if item >= 24u {
        return;
    }
    let item_column = item;
    let c = vec4<u32>(item_column * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    let a0 = 0u;
    let a1 = 0u;
    let v0 = b0[a0 + item_column];
    let v1 = b1[a1 + item_column];
    let v3 = v1 * vec4<f32>(0.5f);
    let v4 = v0 + v3;
    let v5 = tanh4(v4);
    b2[item_column] = v5;
}

