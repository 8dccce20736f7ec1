//! Runs small shaders on whatever GPU there is, a software driver included.

mod kernels;

use super::queue::Program;
use super::*;
use std::io::Write;
use std::sync::Arc;

/// Opens a GPU, or says why the test is skipped. With `MEGANEURA_REQUIRE_GPU=1` a missing
/// GPU is a failure.
pub(crate) fn context(test: &str) -> Option<Arc<Context>> {
    match Context::best() {
        Ok(context) => Some(context),
        Err(error) if std::env::var("MEGANEURA_REQUIRE_GPU").is_ok_and(|v| v == "1") => {
            panic!("{test} needs a GPU: {error}")
        }
        Err(error) => {
            // Past the test runner, which keeps what passing tests print to itself.
            let _ = writeln!(std::io::stderr(), "{test}: skipped, no GPU here: {error}");
            None
        }
    }
}

const SCALE: &str = "
var<storage, read> b0: array<f32>;
var<storage, read_write> b1: array<f32>;
var<uniform> arguments: array<vec4<u32>, 12>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if i < arguments[0].x {
        b1[i] = b0[i] * f32(arguments[0].y) + f32(arguments[11].w);
    }
}
";

fn scale(context: &Context, from: &Arc<Buffer>, to: &Arc<Buffer>, count: u32) -> Dispatch {
    let binding = |buffer: &Arc<Buffer>, writes| Binding {
        buffer: buffer.clone(),
        offset: 0,
        bytes: u64::from(count) * 4,
        writes,
    };
    let mut arguments = [0; 48];
    arguments[0] = count;
    arguments[1] = 2;
    arguments[47] = 1;
    Dispatch {
        name: "scale".to_owned(),
        pipeline: context.pipeline("scale", SCALE, 2).unwrap(),
        bindings: vec![binding(from, false), binding(to, true)],
        arguments,
        groups: [count.div_ceil(64), 1, 1],
    }
}

fn floats(queue: &mut Queue, buffer: &Buffer, count: usize) -> Vec<f32> {
    let mut values = vec![0f32; count];
    queue
        .read(buffer, 0, bytemuck::cast_slice_mut(&mut values))
        .unwrap();
    values
}

#[test]
fn dispatches_of_one_pass_see_each_other() {
    let Some(context) = context("dispatches_of_one_pass_see_each_other") else {
        return;
    };
    println!("running on {}", context.adapter());
    let mut queue = Queue::new(&context).unwrap();
    let count = 1000u32;
    for create in [Buffer::device, Buffer::shared] {
        let a = Arc::new(create(&context, "a", u64::from(count) * 4).unwrap());
        let b = Arc::new(create(&context, "b", u64::from(count) * 4).unwrap());
        let input = (0..count).map(|i| i as f32).collect::<Vec<_>>();
        queue.write(&a, 0, bytemuck::cast_slice(&input)).unwrap();
        let dispatches = vec![
            scale(&context, &a, &b, count),
            scale(&context, &b, &a, count),
            scale(&context, &a, &b, count),
        ];
        let program = Program::new(&context, dispatches).unwrap();
        assert_eq!(program.barrier_count(), 2);
        queue.run(&program).unwrap();
        let expected = input.iter().map(|x| 8.0 * x + 7.0).collect::<Vec<_>>();
        assert_eq!(floats(&mut queue, &b, count as usize), expected);
    }
    let compile = || context.pipeline("scale", SCALE, 2).unwrap();
    assert!(
        Arc::ptr_eq(&compile(), &compile()),
        "the same text is compiled once"
    );
}

#[test]
fn data_larger_than_the_staging_buffer_survives_the_round_trip() {
    let Some(context) = context("data_larger_than_the_staging_buffer") else {
        return;
    };
    let mut queue = Queue::new(&context).unwrap();
    let data = (0..3_000_001u32).map(|i| i as f32).collect::<Vec<_>>();
    let buffer = Buffer::device(&context, "large", data.len() as u64 * 4).unwrap();
    queue
        .write(&buffer, 0, bytemuck::cast_slice(&data))
        .unwrap();
    assert!(floats(&mut queue, &buffer, data.len()) == data);
}

#[test]
fn mistakes_come_back_as_errors() {
    let Some(context) = context("mistakes_come_back_as_errors") else {
        return;
    };
    let error = Buffer::device(&context, "huge", 1 << 50).unwrap_err();
    assert!(matches!(error, GpuError::TooLarge { .. }), "{error}");

    let error = context.pipeline("broken", "fn main() {", 0).unwrap_err();
    assert!(error.to_string().contains("broken"), "{error}");
    let error = context.pipeline("unbound", SCALE, 1).unwrap_err();
    assert!(error.to_string().contains("b1"), "{error}");

    let small = Arc::new(Buffer::device(&context, "small", 64).unwrap());
    let mut queue = Queue::new(&context).unwrap();
    assert!(queue.write(&small, 32, &[0; 64]).is_err());
    let a = Arc::new(Buffer::device(&context, "a", 64).unwrap());
    let refused = |dispatch: Dispatch, why: &str| {
        let error = Program::new(&context, vec![dispatch]).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(scale(&context, &small, &a, 100), "past the end");
    refused(scale(&context, &small, &small, 16), "binds twice");
    let mut misaligned = scale(&context, &small, &a, 4);
    misaligned.bindings[0].offset = 16;
    refused(misaligned, "offset 16");
    let mut incomplete = scale(&context, &small, &a, 4);
    incomplete.bindings.pop();
    refused(incomplete, "binds 1 buffers");
    let mut too_many = scale(&context, &small, &a, 16);
    too_many.groups = [70_000, 1, 1];
    refused(too_many, "workgroups");

    // Errors leave the device usable.
    let program = Program::new(&context, vec![scale(&context, &small, &a, 16)]).unwrap();
    queue.run(&program).unwrap();
    context.wait().unwrap();
}

#[test]
fn an_unknown_device_id_is_an_error() {
    assert!(Context::with_device_id(0xdead_beef).is_err());
}

#[test]
fn a_device_is_opened_once_for_all_who_use_it() {
    let Some(context) = context("a_device_is_opened_once_for_all_who_use_it") else {
        return;
    };
    let again = Context::with_device_id(context.adapter().device_id).unwrap();
    assert!(Arc::ptr_eq(&context, &again));
}
