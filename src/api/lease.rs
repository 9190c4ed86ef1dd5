//! What `lib/lease.js` needs of leases: each call changes one, and nothing here waits or repeats.

use napi::Env;
use napi::bindgen_prelude::{JsObjectValue, JsValue, Object};
use napi_derive::napi;

use crate::api::convert::arguments::Arguments;
use crate::api::convert::engine::{Engine, Value, number_of, text_of};
use crate::api::convert::results::{self, Failure, number};
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;
use crate::backend::{Acquired, Claim, Lease};
use crate::types::error::{Error, Result};
use crate::types::id::SessionId;
use crate::types::time::now_ms;

const LONGEST_OWNER: usize = 200;
const SHORTEST_TTL_MS: f64 = 50.0;
const LONGEST_TTL_MS: f64 = 86_400_000.0;

/// What somebody asks for, in words of its own.
struct Wish {
  owner: String,
  ttl_ms: u64,
  is_forced: bool,
}

impl Wish {
  fn claim(&self) -> Claim<'_> {
    Claim {
      owner: &self.owner,
      ttl_ms: self.ttl_ms,
      is_forced: self.is_forced,
    }
  }
}

/// `{ isHeld, number, owner, expiresAt }`; with `isHeld`, by somebody else.
#[napi(skip_typescript)]
pub fn acquire_lease<'env>(
  env: &'env Env,
  store: &CheckpointStore,
  session_id: Value,
  options: Value,
) -> napi::Result<Promise<'env>> {
  store.call(
    env,
    Failure::Rejects,
    |arguments| Ok((arguments.session_id(session_id)?, arguments.wish(options)?)),
    |store, (session, wish)| Ok((now_ms(), store.acquire(&session, wish.claim())?)),
    |engine, (asked_at, acquired)| {
      let (lease, is_held) = match acquired {
        Acquired::Taken(lease) => (lease, false),
        Acquired::Held(lease) => (lease, true),
      };
      let mut result = facts(engine, &lease, asked_at)?;
      result.set_named_property("isHeld", is_held)?;
      Ok(result.to_unknown())
    },
  )
}

/// `{ sessionId, number, owner, expiresAt }`, or `null`.
#[napi(skip_typescript)]
pub fn acquire_next_lease<'env>(
  env: &'env Env,
  store: &CheckpointStore,
  options: Value,
) -> napi::Result<Promise<'env>> {
  store.call(
    env,
    Failure::Rejects,
    |arguments| Ok((arguments.wish(options)?, arguments.statuses(options)?)),
    |store, (wish, statuses)| Ok((now_ms(), store.acquire_next(&statuses, wish.claim())?)),
    |engine, (asked_at, next)| match next {
      None => results::null(engine),
      Some((session, lease)) => {
        let mut result = facts(engine, &lease, asked_at)?;
        result.set_named_property("sessionId", session.as_str())?;
        Ok(result.to_unknown())
      }
    },
  )
}

/// `{ number, owner, expiresAt }`. It waits for nothing else that was asked for: that may take longer than the lease lasts.
#[napi(skip_typescript)]
pub fn renew_lease<'env>(
  env: &'env Env,
  store: &CheckpointStore,
  session_id: Value,
  lease_number: Value,
  ttl_ms: Value,
) -> napi::Result<Promise<'env>> {
  store.call_first(
    env,
    Failure::Rejects,
    |arguments| {
      let (session, number) = arguments.lease(session_id, lease_number)?;
      Ok((session, number, arguments.ttl(ttl_ms)?))
    },
    |store, (session, number, ttl_ms)| Ok((now_ms(), store.renew(&session, number, ttl_ms)?)),
    |engine, (asked_at, lease)| Ok(facts(engine, &lease, asked_at)?.to_unknown()),
  )
}

/// Sets the one function that is called with `(store, sessionId, number, error)` when a write was refused because its lease is
/// lost, before the caller of that write is answered.
#[napi(skip_typescript)]
pub fn on_lease_lost(env: &Env, listener: Value) -> napi::Result<()> {
  Engine::new(env)?.set_lease_listener(listener)
}

/// The number by which `onLeaseLost` names a store.
#[napi(skip_typescript)]
#[must_use]
pub fn store_number(store: &CheckpointStore) -> f64 {
  number(store.inner.id())
}

/// Whether it was still there.
#[napi(skip_typescript)]
pub fn release_lease<'env>(
  env: &'env Env,
  store: &CheckpointStore,
  session_id: Value,
  lease_number: Value,
) -> napi::Result<Promise<'env>> {
  store.call(
    env,
    Failure::Rejects,
    |arguments| arguments.lease(session_id, lease_number),
    |store, (session, number)| store.release(&session, number),
    |engine, is_released| Ok(engine.value(is_released)?),
  )
}

/// It lasts from some moment after it was asked for; until somebody hears of it, any time may pass.
fn facts(engine: Engine<'_>, lease: &Lease, asked_at: u64) -> Result<Object<'static>> {
  let mut result = engine.object()?;
  result.set_named_property("number", number(lease.number))?;
  result.set_named_property("owner", lease.owner.as_str())?;
  result.set_named_property("expiresAt", number(asked_at.saturating_add(lease.remaining_ms)))?;
  Ok(result)
}

impl Arguments<'_> {
  /// `{ owner, ttlMs, force? }`
  fn wish(self, options: Value) -> Result<Wish> {
    self.object(options, "options")?;
    let owner = self.get(options, "owner")?;
    Ok(Wish {
      owner: self.owner(owner)?,
      ttl_ms: self.ttl(self.get(options, "ttlMs")?)?,
      is_forced: self.flag(options, "force")?,
    })
  }

  fn owner(self, value: Value) -> Result<String> {
    let is_good = |owner: &String| {
      let is_plain =
        !owner.contains(|character: char| character.is_control() || character == char::REPLACEMENT_CHARACTER);
      (1..=LONGEST_OWNER).contains(&owner.len()) && is_plain
    };
    text_of(value).filter(is_good).ok_or_else(|| {
      let expected = format!("a string of 1 to {LONGEST_OWNER} bytes, without control characters");
      self.wrong("options.owner", &expected, value)
    })
  }

  fn ttl(self, value: Value) -> Result<u64> {
    let bounds = SHORTEST_TTL_MS..=LONGEST_TTL_MS;
    match number_of(value) {
      Some(ttl) if bounds.contains(&ttl) && ttl.fract() == 0.0 => Ok(crate::api::convert::arguments::to_u64(ttl)),
      _ => {
        let expected = format!("a whole number of milliseconds from {SHORTEST_TTL_MS} to {LONGEST_TTL_MS}");
        Err(self.wrong("options.ttlMs", &expected, value))
      }
    }
  }

  /// `{ status?: string | string[] }`
  fn statuses(self, options: Value) -> Result<Vec<String>> {
    let Some(value) = self.option(options, "status")? else {
      return Ok(Vec::new());
    };
    let wrong = || self.wrong("options.status", "a status, or an array of some", value);
    if let Some(status) = text_of(value) {
      return Ok(vec![status]);
    }
    let statuses = self.texts(value, "options.status")?.ok_or_else(wrong)?;
    if statuses.is_empty() {
      return Err(wrong());
    }
    Ok(statuses)
  }

  /// What an acquisition gave.
  fn lease(self, session: Value, lease_number: Value) -> Result<(SessionId, u64)> {
    let number = number_of(lease_number).map(crate::api::convert::arguments::to_u64);
    let number = number.ok_or_else(|| Error::invalid_argument("the number of a lease must be a number"));
    Ok((self.session_id(session)?, number?))
  }
}
