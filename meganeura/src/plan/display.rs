use std::fmt;

use super::{Plan, Role};

impl fmt::Display for Plan {
    /// A table of kernels with bytes and FLOPs, and the totals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>4}  {:>10}  {:>10}  kernel", "", "bytes", "flops")?;
        for (index, kernel) in self.kernels.iter().enumerate() {
            let (bytes, flops) = (scaled(self.kernel_bytes(kernel)), scaled(kernel.flops()));
            writeln!(f, "{index:>4}  {bytes:>10}  {flops:>10}  {}", kernel.name)?;
        }
        let temporaries = self
            .buffers
            .iter()
            .filter(|buffer| matches!(buffer.role, Role::Temporary { .. }));
        writeln!(
            f,
            "{} kernels, {}B moved, {}flop, peak memory {}B ({} temporaries in {}B)",
            self.kernels.len(),
            scaled(self.bytes_moved()),
            scaled(self.flops()),
            scaled(self.peak_bytes()),
            temporaries.count(),
            scaled(4 * self.arena_words as u64),
        )
    }
}

/// A count with a decimal prefix.
fn scaled(count: u64) -> String {
    let value = count as f64;
    match count {
        0..1_000 => format!("{count} "),
        1_000..1_000_000 => format!("{:.1} k", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", value / 1e6),
        _ => format!("{:.1} G", value / 1e9),
    }
}
