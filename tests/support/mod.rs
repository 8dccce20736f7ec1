//! What several test files share.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod interpreter;
pub mod samples;

use std::collections::HashMap;
use std::io::Write;

use meganeura::ir::{Array, Attributes, DType, Graph};
use meganeura::runtime::{Device, Session, StepId};

/// The GPU, software or not. Without one the test says that it skips and why, unless
/// `MEGANEURA_REQUIRE_GPU=1` says that there has to be one.
pub fn gpu() -> Option<Device> {
    let device = Device::gpu();
    match Session::new(&device, 0) {
        Ok(_) => Some(device),
        Err(why) if std::env::var("MEGANEURA_REQUIRE_GPU").is_ok_and(|value| value == "1") => {
            panic!("MEGANEURA_REQUIRE_GPU=1, but {why}")
        }
        Err(why) => {
            say(&format!("skipped, no GPU here: {why}"));
            None
        }
    }
}

/// Say something although the test runner keeps what passing tests print to itself.
fn say(line: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    // Nowhere to complain when standard error is gone.
    let _ = writeln!(std::io::stderr(), "{name}: {line}");
}

/// Give a step its inputs, and the session its variables, from doubles.
pub fn give(session: &mut Session, step: StepId, graph: &Graph, values: &HashMap<String, Array>) {
    for node in graph.nodes().iter() {
        let Attributes::Named(name, ..) = &node.op.attributes else {
            continue;
        };
        let Some(array) = values.get(name) else {
            continue;
        };
        let floats: Vec<f32> = array.data.iter().map(|&value| value as f32).collect();
        if session.has_input(step, name) {
            let given = match node.ty.dtype {
                DType::U32 => {
                    let integers: Vec<u32> = array.data.iter().map(|&value| value as u32).collect();
                    session.input(step, name, &integers)
                }
                _ => session.input(step, name, &floats),
            };
            given.unwrap_or_else(|error| panic!("{error}"));
        } else if session.variables().any(|variable| variable.name == *name) {
            session
                .set_variable(name, &floats)
                .unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
