//! The functions for `lib/lease.js`. Each call changes one lease; waiting and renewing happen in JavaScript.

use napi::Env;
use napi::bindgen_prelude::{JsObjectValue, JsValue, Object};
use napi_derive::napi;

use crate::api::convert::arguments::{Arguments, to_u64};
use crate::api::convert::engine::{Engine, Value, number_of, text_of};
use crate::api::convert::results::{self, Failure, number};
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;
use crate::store::{Acquired, Claim, Lease};
use crate::types::error::{Error, Result};
use crate::types::id::SessionId;
use crate::types::time::now_ms;

const LONGEST_OWNER: usize = 200;
const SHORTEST_TTL_MS: f64 = 50.0;
const LONGEST_TTL_MS: f64 = 86_400_000.0;

/// The options of an acquisition.
struct ClaimOptions {
  owner: String,
  ttl_ms: u64,
  is_forced: bool,
}

impl ClaimOptions {
  fn claim(&self) -> Claim<'_> {
    Claim {
      owner: &self.owner,
      ttl_ms: self.ttl_ms,
      is_forced: self.is_forced,
    }
  }
}

/// Acquires the lease of a session: `{ number, owner, expiresAt, isHeld }`. With `isHeld`, another owner holds it.
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
    |arguments| Ok((arguments.session_id(session_id)?, arguments.claim(options)?)),
    |store, (session, options)| Ok((now_ms(), store.acquire(&session, options.claim())?)),
    |engine, (requested_at, acquired)| {
      let (lease, is_held) = match acquired {
        Acquired::Taken(lease) => (lease, false),
        Acquired::Held(lease) => (lease, true),
      };
      let mut result = lease_members(engine, &lease, requested_at)?;
      result.set_named_property("isHeld", is_held)?;
      Ok(result.to_unknown())
    },
  )
}

/// Acquires the lease of any free session: `{ number, owner, expiresAt, sessionId }`, or `null`.
#[napi(skip_typescript)]
pub fn acquire_next_lease<'env>(
  env: &'env Env,
  store: &CheckpointStore,
  options: Value,
) -> napi::Result<Promise<'env>> {
  store.call(
    env,
    Failure::Rejects,
    |arguments| Ok((arguments.claim(options)?, arguments.statuses(options)?)),
    |store, (options, statuses)| Ok((now_ms(), store.acquire_next(&statuses, options.claim())?)),
    |engine, (requested_at, next)| match next {
      None => results::null(engine),
      Some((session, lease)) => {
        let mut result = lease_members(engine, &lease, requested_at)?;
        result.set_named_property("sessionId", session.as_str())?;
        Ok(result.to_unknown())
      }
    },
  )
}

/// Extends a lease: `{ number, owner, expiresAt }`. It does not wait for earlier calls, which may take longer than the lease
/// lasts.
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
    |arguments| {
      let (session, number) = arguments.lease(session_id, lease_number)?;
      Ok((session, number, arguments.ttl(ttl_ms)?))
    },
    |store, (session, number, ttl_ms)| Ok((now_ms(), store.renew(&session, number, ttl_ms)?)),
    |engine, (requested_at, lease)| Ok(lease_members(engine, &lease, requested_at)?.to_unknown()),
  )
}

/// Sets the function that is called with `(store, sessionId, number, error)` when a write was rejected because its lease is lost,
/// before the promise of that write is settled.
#[napi(skip_typescript)]
pub fn on_lease_lost(env: &Env, listener: Value) -> napi::Result<()> {
  Engine::new(env)?.set_lease_listener(listener)
}

/// The number of a store, as the listener of `onLeaseLost` gets it.
#[napi(skip_typescript)]
#[must_use]
pub fn store_number(store: &CheckpointStore) -> f64 {
  number(store.inner.id())
}

/// Releases a lease, and returns whether it still existed.
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

/// The members of a lease. `expiresAt` counts from before the request, so the lease does not expire earlier than it says.
fn lease_members(engine: Engine<'_>, lease: &Lease, requested_at: u64) -> Result<Object<'static>> {
  let mut result = engine.object()?;
  result.set_named_property("number", number(lease.number))?;
  result.set_named_property("owner", lease.owner.as_str())?;
  result.set_named_property("expiresAt", number(requested_at.saturating_add(lease.remaining_ms)))?;
  Ok(result)
}

impl Arguments<'_> {
  /// `{ owner, ttlMs, force? }`
  fn claim(self, options: Value) -> Result<ClaimOptions> {
    self.object(options, "options")?;
    let owner = self.get(options, "owner")?;
    Ok(ClaimOptions {
      owner: self.owner(owner)?,
      ttl_ms: self.ttl(self.get(options, "ttlMs")?)?,
      is_forced: self.flag(options, "force")?,
    })
  }

  fn owner(self, value: Value) -> Result<String> {
    let is_valid = |owner: &String| {
      let is_plain =
        !owner.contains(|character: char| character.is_control() || character == char::REPLACEMENT_CHARACTER);
      (1..=LONGEST_OWNER).contains(&owner.len()) && is_plain
    };
    text_of(value).filter(is_valid).ok_or_else(|| {
      let expected = format!("a string of 1 to {LONGEST_OWNER} bytes, without control characters");
      self.wrong("options.owner", &expected, value)
    })
  }

  fn ttl(self, value: Value) -> Result<u64> {
    let bounds = SHORTEST_TTL_MS..=LONGEST_TTL_MS;
    match number_of(value) {
      Some(ttl) if bounds.contains(&ttl) && ttl.fract() == 0.0 => Ok(to_u64(ttl)),
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
    let wrong = || self.wrong("options.status", "a status, or an array of statuses", value);
    if let Some(status) = text_of(value) {
      return Ok(vec![status]);
    }
    let statuses = self.texts(value, "options.status")?.ok_or_else(wrong)?;
    if statuses.is_empty() {
      return Err(wrong());
    }
    Ok(statuses)
  }

  /// The session and the fencing token of a lease.
  fn lease(self, session: Value, lease_number: Value) -> Result<(SessionId, u64)> {
    let number = number_of(lease_number).map(to_u64);
    let number = number.ok_or_else(|| Error::invalid_argument("the number of a lease must be a number"));
    Ok((self.session_id(session)?, number?))
  }
}
