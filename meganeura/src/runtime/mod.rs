//! Running a plan on a device.

pub mod cpu;
