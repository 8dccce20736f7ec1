//! A fixed set of threads for short parallel regions.
//!
//! A training step is some tens of regions, many shorter than 100 µs, so what counts is
//! the time from "here is work" to the first instruction of it on every thread. Workers
//! therefore watch for the next region for a bounded while before they sleep, a region is
//! published with one store, and a worker that comes late is not waited for: the caller
//! takes tasks too and only waits for workers that have begun one.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::num::NonZero;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long an idle worker watches for work before it sleeps.
const WATCH: Duration = Duration::from_micros(100);
/// How long a waiting thread spins before it also offers its core to others.
const SPIN: Duration = Duration::from_micros(10);

/// The function of a region, called with a task index and a worker index.
type Task = dyn Fn(usize, usize) + Sync;

/// A fixed number of threads, the caller's own among them.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use meganeura::runtime::cpu::Pool;
///
/// let pool = Pool::new(2);
/// let sum = AtomicUsize::new(0);
/// pool.run(10, |task, _worker| {
///     sum.fetch_add(task, Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 45);
/// ```
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    /// One region at a time; other callers wait here.
    turn: Mutex<()>,
    workers: Vec<JoinHandle<()>>,
}

/// What the threads of a pool share. The fields written per region stand on cache lines
/// of their own, so that a worker which takes tasks does not slow those who only watch.
#[derive(Debug)]
struct Shared {
    /// High half: the number of the region, odd while it is open to workers.
    /// Low half: how many workers are inside.
    gate: Line<AtomicU64>,
    /// For each thread, the next task of its own share that nobody has taken.
    next: Box<[Line<AtomicUsize>]>,
    region: Line<UnsafeCell<Region>>,
    /// How many workers sleep or are about to.
    sleepers: Line<AtomicUsize>,
    quit: AtomicBool,
    /// Spinning only helps while every thread has a core.
    spin: Duration,
}

/// Keeps its content on a pair of cache lines of its own (they are fetched in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

/// The open region's work.
#[derive(Debug)]
struct Region {
    task: *const Task,
    tasks: usize,
    panic: *const Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `region` is written only by the caller that holds `turn`, while the gate is
// closed and nobody is inside; it is read only by workers that entered through the open
// gate (an acquire of the caller's release). What it points to is `Sync` and outlives the
// region, since `Pool::run` returns only after the gate is closed and everybody has left.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

const OPEN: u64 = 1 << 32;
const INSIDE: u64 = OPEN - 1;

thread_local! {
    /// Which worker of which pool (by the address of its shared part) this thread is just
    /// now, while it runs a task.
    static CURRENT: Cell<Option<(*const Shared, usize)>> = const { Cell::new(None) };
}

impl Pool {
    /// A pool of `threads` threads, at least one: the caller of [`Pool::run`] is one of
    /// them and the others are started here. If the system refuses to start a thread, the
    /// pool goes on with those it has.
    pub fn new(threads: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let shared = Arc::new(Shared {
            gate: Line::default(),
            next: (0..threads.max(1)).map(|_| Line::default()).collect(),
            region: Line(UnsafeCell::new(Region {
                task: &|_, _| {},
                tasks: 0,
                panic: std::ptr::null(),
            })),
            sleepers: Line::default(),
            quit: AtomicBool::new(false),
            spin: if threads <= cores {
                SPIN
            } else {
                Duration::ZERO
            },
        });
        let start = |worker| {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name(format!("meganeura-{worker}"))
                .spawn(move || shared.work(worker))
        };
        let workers = (1..threads)
            .map_while(|worker| start(worker).ok())
            .collect();
        Self {
            shared,
            turn: Mutex::new(()),
            workers,
        }
    }

    /// A pool with a thread for every core this process may use.
    pub fn with_all_cores() -> Self {
        Self::new(thread::available_parallelism().map_or(1, NonZero::get))
    }

    /// How many threads take part in a region; worker indices are below this.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task(task_index, worker_index)` once for every task index below `tasks` and
    /// returns when all calls have. Each thread begins with a share of its own, the same for
    /// the same number of tasks, and then helps others with theirs: what a thread has written
    /// in one region it mostly finds in its caches in the next. No two calls with the same
    /// worker index overlap.
    ///
    /// With one thread or one task everything runs on the caller's, as does a region that is
    /// opened from inside a task. If a task panics, tasks not yet begun are dropped and
    /// the panic goes on in the caller once the running ones have ended.
    pub fn run(&self, tasks: usize, task: impl Fn(usize, usize) + Sync) {
        let shared: &Shared = &self.shared;
        if let Some((pool, worker)) = CURRENT.get()
            && std::ptr::eq(pool, shared)
        {
            (0..tasks).for_each(|index| task(index, worker));
            return;
        }
        // A panic in a task leaves the `()` that this mutex protects as it was.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let _current = Current::enter(shared, 0);
        if tasks <= 1 || self.workers.is_empty() {
            (0..tasks).for_each(|index| task(index, 0));
            return;
        }
        let panic = Mutex::new(None);
        let task: &(dyn Fn(usize, usize) + Sync) = &task;
        let region = Region {
            // SAFETY: only the lifetime is changed; nobody uses the pointer after `close`.
            task: unsafe {
                std::mem::transmute::<*const (dyn Fn(usize, usize) + Sync + '_), *const Task>(task)
            },
            tasks,
            panic: &raw const panic,
        };
        self.open(region);
        shared.take_tasks(task, tasks, 0, &panic);
        shared.close();
        if let Some(payload) = panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(payload);
        }
    }

    /// Publishes a region and wakes the workers that sleep. The caller holds `turn`.
    fn open(&self, region: Region) {
        let shared = &self.shared;
        let region_tasks = region.tasks;
        // SAFETY: the gate is closed and nobody is inside (`close` waited for that), so
        // nobody else reads or writes the region.
        unsafe { *shared.region.0.get() = region };
        for (worker, next) in shared.next.iter().enumerate() {
            let first = share(region_tasks, shared.next.len(), worker).start;
            next.0.store(first, Ordering::Relaxed);
        }
        // Sequentially consistent, as are the sleepers' own steps: either this thread sees
        // the sleeper, or the sleeper sees the open gate.
        shared.gate.0.fetch_add(OPEN, Ordering::SeqCst);
        if shared.sleepers.0.load(Ordering::SeqCst) > 0 {
            for worker in &self.workers {
                worker.thread().unpark();
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker cannot panic: its tasks are caught. Nothing to be done if it did.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// A worker's life.
    fn work(&self, worker: usize) {
        let _current = Current::enter(self, worker);
        let mut seen = 0;
        while let Some(number) = self.wait_for_region(seen) {
            seen = number;
            // SAFETY: this worker is inside the gate, so the region stays as it is and what
            // it points to lives until `leave`.
            unsafe {
                let region = &*self.region.0.get();
                self.take_tasks(&*region.task, region.tasks, worker, &*region.panic);
            }
            self.gate.0.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits until a region other than `seen` is open and enters it; its number, or
    /// nothing when the pool is being dropped.
    fn wait_for_region(&self, seen: u64) -> Option<u64> {
        let mut backoff = Backoff::new(self.spin);
        loop {
            if let Some(number) = self.try_enter(seen) {
                return Some(number);
            }
            if self.quit.load(Ordering::Relaxed) {
                return None;
            }
            if backoff.wait() > WATCH {
                self.sleep(seen);
                backoff = Backoff::new(self.spin);
            }
        }
    }

    /// Enters the open region unless there is none or it is number `seen`.
    fn try_enter(&self, seen: u64) -> Option<u64> {
        let mut gate = self.gate.0.load(Ordering::Relaxed);
        loop {
            let number = gate / OPEN;
            if number.is_multiple_of(2) || number == seen {
                return None;
            }
            match self.gate.0.compare_exchange_weak(
                gate,
                gate + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(number),
                Err(now) => gate = now,
            }
        }
    }

    /// Sleeps until a new region may be open or the pool is being dropped.
    fn sleep(&self, seen: u64) {
        self.sleepers.0.fetch_add(1, Ordering::SeqCst);
        let number = self.gate.0.load(Ordering::SeqCst) / OPEN;
        let nothing_new = number.is_multiple_of(2) || number == seen;
        if nothing_new && !self.quit.load(Ordering::SeqCst) {
            // May return early; the caller's loop looks again.
            thread::park();
        }
        self.sleepers.0.fetch_sub(1, Ordering::SeqCst);
    }

    /// Runs tasks until there are none left. A panic is kept and drops the tasks not begun.
    fn take_tasks(
        &self,
        task: &(dyn Fn(usize, usize) + Sync),
        tasks: usize,
        worker: usize,
        panic: &Mutex<Option<Box<dyn Any + Send>>>,
    ) {
        let result = catch_unwind(AssertUnwindSafe(|| {
            // The own share first, then what others have left of theirs.
            for owner in (worker..self.next.len()).chain(0..worker) {
                let end = share(tasks, self.next.len(), owner).end;
                loop {
                    let index = self.next[owner].0.fetch_add(1, Ordering::Relaxed);
                    if index >= end {
                        break;
                    }
                    task(index, worker);
                }
            }
        }));
        if let Err(payload) = result {
            for next in &self.next {
                // Half the range, so that the counter cannot wrap around to a valid index.
                next.0.store(usize::MAX / 2, Ordering::Relaxed);
            }
            let mut first = panic.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(payload);
        }
    }

    /// Lets no more workers in and waits until those inside have left.
    fn close(&self) {
        self.gate.0.fetch_add(OPEN, Ordering::Relaxed);
        let mut backoff = Backoff::new(self.spin);
        while self.gate.0.load(Ordering::Acquire) & INSIDE != 0 {
            backoff.wait();
        }
    }
}

/// The tasks that a worker begins with.
fn share(tasks: usize, workers: usize, worker: usize) -> Range<usize> {
    tasks * worker / workers..tasks * (worker + 1) / workers
}

/// Marks the current thread as a worker of a pool; the former mark returns on drop.
struct Current(Option<(*const Shared, usize)>);

impl Current {
    fn enter(shared: &Shared, worker: usize) -> Self {
        Self(CURRENT.replace(Some((shared, worker))))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Waits by spinning at first and then by yielding the core.
struct Backoff {
    start: Option<Instant>,
    spin: Duration,
}

impl Backoff {
    fn new(spin: Duration) -> Self {
        Self { start: None, spin }
    }

    /// Waits a little; how long this has been going on.
    fn wait(&mut self) -> Duration {
        let waited = self.start.get_or_insert_with(Instant::now).elapsed();
        if waited < self.spin {
            // Looking at the clock (about 20 ns) is itself a pause.
            std::hint::spin_loop();
        } else {
            thread::yield_now();
        }
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of_tasks(pool: &Pool, tasks: usize) -> usize {
        let sum = AtomicUsize::new(0);
        pool.run(tasks, |task, worker| {
            assert!(worker < pool.threads());
            sum.fetch_add(task + 1, Ordering::Relaxed);
        });
        sum.into_inner()
    }

    #[test]
    fn every_task_runs_once() {
        for threads in [0, 1, 2, 3, 8] {
            let pool = Pool::new(threads);
            assert_eq!(pool.threads(), threads.max(1));
            for tasks in [0, 1, 2, 3, 7, 100] {
                assert_eq!(sum_of_tasks(&pool, tasks), tasks * (tasks + 1) / 2);
            }
        }
    }

    #[test]
    fn many_short_regions_and_pauses_between() {
        let pool = Pool::new(3);
        for round in 0..3000 {
            assert_eq!(sum_of_tasks(&pool, 5), 15);
            if round % 1000 == 0 {
                thread::sleep(Duration::from_millis(2));
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::new(2);
        for _ in 0..20 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(8, |task, _| assert!(task != 3, "task three"));
            }));
            let payload = result.expect_err("the panic is passed on");
            assert!(
                payload
                    .downcast_ref::<&str>()
                    .is_some_and(|m| *m == "task three")
            );
            assert_eq!(sum_of_tasks(&pool, 4), 10);
        }
    }

    #[test]
    fn a_region_inside_a_task_runs_on_its_own_thread() {
        let pool = Pool::new(2);
        let count = AtomicUsize::new(0);
        pool.run(4, |_, outer| {
            pool.run(3, |_, inner| {
                assert_eq!(outer, inner);
                count.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(count.into_inner(), 12);
    }

    #[test]
    fn callers_on_several_threads_take_turns() {
        let pool = Pool::new(2);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        assert_eq!(sum_of_tasks(&pool, 6), 21);
                    }
                });
            }
        });
    }

    #[test]
    fn worker_indices_do_not_overlap() {
        let pool = Pool::new(4);
        let busy: Vec<_> = (0..pool.threads())
            .map(|_| AtomicBool::new(false))
            .collect();
        pool.run(200, |_, worker| {
            assert!(!busy[worker].swap(true, Ordering::SeqCst));
            thread::yield_now();
            busy[worker].store(false, Ordering::SeqCst);
        });
    }
}
