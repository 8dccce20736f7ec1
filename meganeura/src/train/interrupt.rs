//! Ctrl-C: the first ends training after the running step, the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Listen from now on, forgetting what was asked before.
pub(super) fn listen() {
    ASKED.store(false, Ordering::Relaxed);
    #[cfg(feature = "progress")]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        // Where a handler cannot be set (another is), Ctrl-C does what it did.
        ONCE.call_once(|| drop(ctrlc::try_set_handler(asked)));
    }
}

#[cfg(feature = "progress")]
fn asked() {
    if ASKED.swap(true, Ordering::Relaxed) {
        std::process::exit(130);
    }
}

/// Whether the user wants to stop.
pub(super) fn wanted() -> bool {
    ASKED.load(Ordering::Relaxed)
}
