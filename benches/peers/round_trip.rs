//! How long a cache line takes from one thread to another and back, in nanoseconds.
//!
//! `run.py` compiles and runs this: two cores of a virtual machine may share a cache one minute and
//! lie on different chips the next, and what two threads take depends on that.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

const ROUNDS: u32 = 100_000;

#[repr(align(128))]
struct Line(AtomicU32);

static LINE: Line = Line(AtomicU32::new(0));

fn wait_for(value: u32) {
    while LINE.0.load(Ordering::Acquire) != value {
        spin_loop();
    }
}

fn main() {
    let other = thread::spawn(|| {
        for round in 0..ROUNDS {
            wait_for(2 * round + 1);
            LINE.0.store(2 * round + 2, Ordering::Release);
        }
    });
    let begin = Instant::now();
    for round in 0..ROUNDS {
        LINE.0.store(2 * round + 1, Ordering::Release);
        wait_for(2 * round + 2);
    }
    let took = begin.elapsed().as_nanos() as f64;
    other.join().expect("the other thread");
    println!("{:.0}", took / f64::from(ROUNDS));
}
