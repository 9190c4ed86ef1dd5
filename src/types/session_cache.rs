//! A bounded cache of what a process knows of sessions.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use parking_lot::Mutex;

use crate::types::id::SessionId;

/// A key of a [`SessionCache`]: a session, or a part of one.
pub trait SessionKey: Clone + Eq + Hash {
  fn is_of(&self, session: &SessionId) -> bool;
}

impl SessionKey for SessionId {
  fn is_of(&self, session: &SessionId) -> bool {
    self == session
  }
}

/// A map whose least recently used entries are dropped when it exceeds its limit.
///
/// Any entry may be dropped at any time, so losing one may cost time, but must not change a result. Ids and fencing tokens do not
/// belong here. The lock is held for one access, and an access to a present entry does not allocate.
#[derive(Debug)]
pub struct SessionCache<K, V> {
  limit: u64,
  weigh: fn(&V) -> u64,
  entries: Mutex<Entries<K, V>>,
}

#[derive(Debug)]
struct Entries<K, V> {
  by_key: HashMap<K, Entry<V>>,
  /// Counts the accesses.
  clock: u64,
}

#[derive(Debug)]
struct Entry<V> {
  /// `None` only while the entry is updated.
  value: Option<V>,
  /// The clock at its last use, which no other entry has.
  used_at: u64,
}

impl<V> Entry<V> {
  fn weight(&self, weigh: fn(&V) -> u64) -> u64 {
    self.value.as_ref().map_or(0, weigh)
  }
}

impl<K: SessionKey, V> SessionCache<K, V> {
  /// A cache of at most `limit` entries.
  #[must_use]
  pub fn new(limit: u64) -> Self {
    Self::weighted(limit, |_| 1)
  }

  /// A cache whose entries together weigh at most `limit`. The weight of an entry may change while it is cached: call
  /// [`SessionCache::evict`] after it has grown.
  #[must_use]
  pub fn weighted(limit: u64, weigh: fn(&V) -> u64) -> Self {
    Self {
      limit,
      weigh,
      entries: Mutex::new(Entries {
        by_key: HashMap::new(),
        clock: 0,
      }),
    }
  }

  /// Changes the entry of a key in one step: `None` stands for no entry, before the change and after it. `change` must not use the
  /// cache.
  pub fn update<T>(&self, key: &K, change: impl FnOnce(&mut Option<V>) -> T) -> T {
    let entries = &mut *self.entries.lock();
    entries.clock += 1;
    if let Some(entry) = entries.by_key.get_mut(key) {
      entry.used_at = entries.clock;
      let result = change(&mut entry.value);
      if entry.value.is_none() {
        entries.by_key.remove(key);
      }
      return result;
    }
    let mut value = None;
    let result = change(&mut value);
    if value.is_some() {
      let used_at = entries.clock;
      entries.by_key.insert(key.clone(), Entry { value, used_at });
      if entries.by_key.len() as u64 > self.limit {
        entries.evict(self.limit, self.weigh);
      }
    }
    result
  }

  /// What `read` returns for the value of a key; `None` if there is none.
  pub fn read<T>(&self, key: &K, read: impl FnOnce(&V) -> T) -> Option<T> {
    let entries = &mut *self.entries.lock();
    entries.clock += 1;
    let entry = entries.by_key.get_mut(key)?;
    entry.used_at = entries.clock;
    entry.value.as_ref().map(read)
  }

  /// Drops the entries that `keep` does not keep.
  pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
    let mut entries = self.entries.lock();
    entries
      .by_key
      .retain(|key, entry| entry.value.as_ref().is_some_and(|value| keep(key, value)));
  }

  /// Drops everything of a session that was deleted, or changed by another writer.
  pub fn forget(&self, session: &SessionId) {
    self.retain(|key, _| !key.is_of(session));
  }

  /// Drops entries until the cache is within its limit.
  pub fn evict(&self) {
    self.entries.lock().evict(self.limit, self.weigh);
  }

  #[cfg(test)]
  pub(crate) fn len(&self) -> usize {
    self.entries.lock().by_key.len()
  }
}

impl<K: SessionKey, V: Clone> SessionCache<K, V> {
  #[must_use]
  pub fn get(&self, key: &K) -> Option<V> {
    self.read(key, V::clone)
  }

  /// The value of a key, which is created if it is missing.
  #[must_use]
  pub fn get_or_default(&self, key: &K) -> V
  where
    V: Default,
  {
    self.update(key, |value| value.get_or_insert_default().clone())
  }
}

impl<K: SessionKey, V> Entries<K, V> {
  /// Drops the least recently used entries until a quarter of the limit is free, so that the next entries need no eviction.
  /// Entries that exceed the remaining three quarters by themselves are dropped first: they would displace all others repeatedly.
  fn evict(&mut self, limit: u64, weigh: fn(&V) -> u64) {
    // Weigh each entry once: its weight may change concurrently.
    let mut by_use: Vec<_> = self
      .by_key
      .values()
      .map(|entry| (entry.weight(weigh), entry.used_at))
      .collect();
    let mut total: u64 = by_use.iter().map(|(weight, _)| weight).sum();
    if total <= limit {
      return;
    }
    let enough = limit - limit / 4;
    by_use.sort_unstable_by_key(|(weight, used_at)| (*weight <= enough, *used_at));
    let mut dropped = HashSet::new();
    for (weight, used_at) in by_use {
      if total <= enough {
        break;
      }
      dropped.insert(used_at);
      total -= weight;
    }
    self.by_key.retain(|_, entry| !dropped.contains(&entry.used_at));
  }
}

#[cfg(test)]
mod tests {
  use std::sync::Arc;
  use std::sync::atomic::{AtomicU64, Ordering};
  use std::thread;

  use super::*;

  fn session(number: usize) -> SessionId {
    SessionId::parse(&format!("s{number}")).unwrap()
  }

  /// The sessions that remain after entries with these weights were cached, the first of them least recently used.
  fn kept(limit: u64, weights: &[u64]) -> Vec<usize> {
    let cache = SessionCache::weighted(limit, |weight: &u64| *weight);
    for (number, weight) in weights.iter().enumerate() {
      cache.update(&session(number), |value| *value = Some(*weight));
    }
    cache.evict();
    let is_kept = |number: &usize| cache.get(&session(*number)).is_some();
    (0..weights.len()).filter(is_kept).collect()
  }

  #[test]
  fn update_creates_changes_and_removes_an_entry() {
    let cache = SessionCache::new(10);
    assert_eq!(cache.get(&session(1)), None);
    cache.update(&session(1), |value| *value = None);
    assert_eq!(cache.len(), 0);
    cache.update(&session(1), |value| *value = Some("one"));
    assert_eq!(cache.update(&session(1), |value| value.replace("two")), Some("one"));
    assert_eq!(cache.get(&session(1)), Some("two"));
    assert_eq!(cache.read(&session(1), |value| value.len()), Some(3));
    cache.update(&session(1), |value| *value = None);
    assert_eq!((cache.get(&session(1)), cache.len()), (None, 0));
  }

  #[test]
  fn get_or_default_returns_one_value_to_all_callers() {
    let cache: SessionCache<_, Arc<AtomicU64>> = SessionCache::new(10);
    cache.get_or_default(&session(1)).store(7, Ordering::Relaxed);
    assert_eq!(cache.get_or_default(&session(1)).load(Ordering::Relaxed), 7);
  }

  #[test]
  fn an_insertion_beyond_the_limit_drops_the_least_recently_used_entries() {
    let cache = SessionCache::new(4);
    for number in 0..4 {
      cache.update(&session(number), |value| *value = Some(number));
    }
    assert!(cache.get(&session(0)).is_some());
    cache.update(&session(4), |value| *value = Some(4));
    let kept: Vec<_> = (0..5).filter(|number| cache.get(&session(*number)).is_some()).collect();
    assert_eq!(kept, [0, 3, 4]);
  }

  #[test]
  fn a_new_entry_is_kept_even_if_the_limit_is_one() {
    let cache = SessionCache::new(1);
    for number in 0..5 {
      cache.update(&session(number), |value| *value = Some(number));
      assert_eq!((cache.get(&session(number)), cache.len()), (Some(number), 1));
    }
  }

  #[test]
  fn evict_frees_a_quarter_and_drops_the_least_recently_used_first() {
    assert_eq!(kept(400, &[100, 100, 100, 100]), [0, 1, 2, 3]);
    assert_eq!(kept(400, &[100, 100, 100, 101]), [2, 3]);
    assert!(kept(0, &[]).is_empty());
    assert!(kept(0, &[1, 1]).is_empty());
    assert_eq!(kept(u64::MAX, &[1, 1]), [0, 1]);
  }

  #[test]
  fn evict_drops_an_entry_that_alone_exceeds_three_quarters_before_all_others() {
    assert_eq!(kept(400, &[100, 100, 401]), [0, 1]);
    assert_eq!(kept(400, &[401, 100, 100]), [1, 2]);
    assert_eq!(kept(400, &[100, 100, 400]), [0, 1]);
    assert_eq!(kept(400, &[400]), [0]);
  }

  #[test]
  fn weights_that_change_during_an_eviction_do_not_confuse_the_sum() {
    let cache: SessionCache<_, Arc<AtomicU64>> = SessionCache::weighted(1000, |weight| weight.load(Ordering::Relaxed));
    let changing = cache.get_or_default(&session(0));
    thread::scope(|scope| {
      scope.spawn(|| {
        for weight in (0..2000).cycle().take(20_000) {
          changing.store(weight, Ordering::Relaxed);
        }
      });
      for number in 0..2000 {
        cache
          .get_or_default(&session(number % 50))
          .store(100, Ordering::Relaxed);
        cache.evict();
      }
    });
  }

  #[test]
  fn forget_drops_every_entry_of_a_session() {
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct Part(SessionId, u8);
    impl SessionKey for Part {
      fn is_of(&self, session: &SessionId) -> bool {
        self.0 == *session
      }
    }
    let cache = SessionCache::new(10);
    for part in [Part(session(1), 1), Part(session(1), 2), Part(session(2), 1)] {
      cache.update(&part, |value| *value = Some(()));
    }
    cache.forget(&session(1));
    assert_eq!((cache.len(), cache.get(&Part(session(2), 1))), (1, Some(())));
  }
}
