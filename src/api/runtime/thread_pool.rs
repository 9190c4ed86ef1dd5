//! The worker threads: a few of Tokio's blocking threads, fed from one queue.
//!
//! With a thread for each of a hundred calls, the threads would take the processor from the event loop, and waking each thread
//! costs the event loop more than queueing its job does. Jobs that wait, for example for a lock of a stopped process, must not
//! block the others: if no job has ended for a while, more workers are started.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use napi::bindgen_prelude::{spawn, spawn_blocking};
use parking_lot::Mutex;

type Job = Box<dyn FnOnce() + Send>;

/// Enough for the disk to merge the syncs of several jobs.
const WORKERS: usize = 8;

/// If no job has ended for this long, all running jobs are assumed to wait for something.
const STALLED: Duration = Duration::from_millis(100);

/// Jobs run without the lock.
static QUEUE: Mutex<Queue> = Mutex::new(Queue {
  waiting: VecDeque::new(),
  workers: 0,
  ended: 0,
  is_monitored: false,
});

struct Queue {
  waiting: VecDeque<Job>,
  workers: usize,
  /// The number of jobs that have ended.
  ended: u64,
  is_monitored: bool,
}

/// The position of a new job in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
  /// After all waiting jobs.
  Normal,
  /// Before all waiting jobs: for small, rare jobs with a deadline.
  High,
}

/// Queues a job. It must not panic.
pub fn run(priority: Priority, job: impl FnOnce() + Send + 'static) {
  let mut queue = QUEUE.lock();
  match priority {
    Priority::Normal => queue.waiting.push_back(Box::new(job)),
    Priority::High => queue.waiting.push_front(Box::new(job)),
  }
  if queue.workers < WORKERS {
    queue.workers += 1;
    drop(queue);
    Worker.start();
  } else if !queue.is_monitored {
    queue.is_monitored = true;
    drop(queue);
    spawn(Monitor.run());
  }
}

/// Counted in [`Queue::workers`] until it is dropped, even if the runtime shuts down before it has begun.
struct Worker;

impl Worker {
  fn start(self) {
    spawn_blocking(move || self.work());
  }

  fn work(self) {
    let mut queue = QUEUE.lock();
    while let Some(job) = queue.waiting.pop_front() {
      drop(queue);
      job();
      queue = QUEUE.lock();
      queue.ended += 1;
    }
    // Under the lock that saw the queue empty: a job that is queued next must not count on this worker.
    queue.workers -= 1;
    mem::forget(self);
  }
}

impl Drop for Worker {
  fn drop(&mut self) {
    QUEUE.lock().workers -= 1;
  }
}

/// Starts more workers when the queue has stalled.
struct Monitor;

impl Monitor {
  /// Ends when no job waits.
  async fn run(self) {
    let mut ended = QUEUE.lock().ended;
    loop {
      tokio::time::sleep(STALLED).await;
      let more = {
        let mut queue = QUEUE.lock();
        if queue.waiting.is_empty() {
          queue.is_monitored = false;
          mem::forget(self);
          return;
        }
        let more = if queue.ended == ended { WORKERS } else { 0 };
        queue.workers += more;
        ended = queue.ended;
        more
      };
      for _ in 0..more {
        Worker.start();
      }
    }
  }
}

impl Drop for Monitor {
  fn drop(&mut self) {
    QUEUE.lock().is_monitored = false;
  }
}
