//! Where work runs off the JavaScript thread: a few lanes of Tokio's blocking threads.
//!
//! A thread for each of a hundred calls would take the processor away from the JavaScript thread, and waking each would
//! cost that thread more than queueing the work does. Work that waits for somebody else, say for the lock of a process
//! that was stopped, must not hold up the rest: when nothing has ended for a while, more lanes are opened.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use napi::bindgen_prelude::{spawn, spawn_blocking};

type Job = Box<dyn FnOnce() + Send>;

/// Enough for the disk to merge the syncs of several.
const LANES: usize = 8;

/// If no job has ended for this long, those that run are waiting for something.
const STUCK: Duration = Duration::from_millis(100);

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
  waiting: VecDeque::new(),
  lanes: 0,
  ended: 0,
  is_watched: false,
});

struct Queue {
  waiting: VecDeque<Job>,
  lanes: usize,
  /// How many jobs have ended.
  ended: u64,
  is_watched: bool,
}

/// Whose turn comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
  /// After all that was asked for before.
  InOrder,
  /// Before all that waits: for what is small, rare, and must not come too late.
  First,
}

/// Runs a job when its turn comes. It must not panic.
pub fn run(turn: Turn, job: impl FnOnce() + Send + 'static) {
  let mut queue = queue();
  match turn {
    Turn::InOrder => queue.waiting.push_back(Box::new(job)),
    Turn::First => queue.waiting.push_front(Box::new(job)),
  }
  let (has_room, is_watched) = (queue.lanes < LANES, queue.is_watched);
  if has_room {
    queue.lanes += 1;
    drop(queue);
    Lane.open();
  } else if !is_watched {
    queue.is_watched = true;
    drop(queue);
    spawn(Watch.look());
  }
}

/// Counted in [`Queue::lanes`] until it is dropped, even if the runtime ends before it has begun.
struct Lane;

impl Lane {
  fn open(self) {
    spawn_blocking(move || self.work());
  }

  fn work(self) {
    let mut queue = queue();
    while let Some(job) = queue.waiting.pop_front() {
      drop(queue);
      job();
      queue = self::queue();
      queue.ended += 1;
    }
    // Under the same lock: nobody may count on a lane that has seen the end of the queue.
    queue.lanes -= 1;
    mem::forget(self);
  }
}

impl Drop for Lane {
  fn drop(&mut self) {
    queue().lanes -= 1;
  }
}

struct Watch;

impl Watch {
  /// For as long as jobs wait.
  async fn look(self) {
    let mut ended = queue().ended;
    loop {
      tokio::time::sleep(STUCK).await;
      let more = {
        let mut queue = queue();
        if queue.waiting.is_empty() {
          queue.is_watched = false;
          mem::forget(self);
          return;
        }
        let more = if queue.ended == ended { LANES } else { 0 };
        queue.lanes += more;
        ended = queue.ended;
        more
      };
      for _ in 0..more {
        Lane.open();
      }
    }
  }
}

impl Drop for Watch {
  fn drop(&mut self) {
    queue().is_watched = false;
  }
}

fn queue() -> MutexGuard<'static, Queue> {
  // Jobs run without the lock, so no panic leaves it half changed.
  QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}
