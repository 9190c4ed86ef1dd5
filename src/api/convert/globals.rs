//! Built-in functions of the engine, looked up once for each environment. A lookup costs more than most calls, and a program that
//! replaces `JSON.stringify` later does not change what is stored.

use std::cell::RefCell;

use napi::Env;
use napi::bindgen_prelude::{FromNapiValue, JsObjectValue, Object};

use crate::api::convert::engine::{Engine, Kept, Value};

/// A reference that is never released: it exists as long as the environment.
pub struct Global(Kept);

impl Global {
  fn member<'a>(object: &impl JsObjectValue<'a>, name: &str) -> napi::Result<Self> {
    Ok(Self(Engine::keep(object.get_named_property_unchecked(name)?)?))
  }

  pub fn get<T: FromNapiValue>(&self, env: Env) -> napi::Result<T> {
    T::from_unknown(self.0.get_value(&env)?)
  }
}

pub struct Globals {
  pub stringify: Global,
  pub parse: Global,
  pub reflect_get: Global,
  pub reflect_apply: Global,
  pub object: Global,
  pub object_prototype: Global,
  pub object_to_string: Global,
  pub entries: Global,
  pub from_entries: Global,
  pub get_prototype_of: Global,
  pub is_array: Global,
  pub map_keys: Global,
  pub error: Global,
  /// The function of `lib/lease.js` that is called when a lease is lost.
  lease_listener: RefCell<Option<Global>>,
}

impl Globals {
  /// The functions of an environment.
  pub fn of(env: Env) -> napi::Result<&'static Self> {
    if let Some(known) = env.get_instance_data::<&'static Self>()? {
      return Ok(*known);
    }
    // A few hundred bytes for each environment, which are never freed.
    let globals: &'static Self = Box::leak(Box::new(Self::look_up(env)?));
    env.set_instance_data(globals, (), |_| {})?;
    Ok(globals)
  }

  fn look_up(env: Env) -> napi::Result<Self> {
    let global = env.get_global()?;
    let namespace = |name: &str| global.get_named_property_unchecked::<Object<'_>>(name);
    let prototype = |class: &Object<'_>| class.get_named_property_unchecked::<Object<'_>>("prototype");
    let (json, reflect, object) = (namespace("JSON")?, namespace("Reflect")?, namespace("Object")?);
    let object_prototype = prototype(&object)?;
    Ok(Self {
      stringify: Global::member(&json, "stringify")?,
      parse: Global::member(&json, "parse")?,
      reflect_get: Global::member(&reflect, "get")?,
      reflect_apply: Global::member(&reflect, "apply")?,
      object: Global::member(&global, "Object")?,
      object_prototype: Global::member(&object, "prototype")?,
      object_to_string: Global::member(&object_prototype, "toString")?,
      entries: Global::member(&object, "entries")?,
      from_entries: Global::member(&object, "fromEntries")?,
      get_prototype_of: Global::member(&object, "getPrototypeOf")?,
      is_array: Global::member(&namespace("Array")?, "isArray")?,
      map_keys: Global::member(&prototype(&namespace("Map")?)?, "keys")?,
      error: Global::member(&global, "Error")?,
      lease_listener: RefCell::default(),
    })
  }

  pub fn set_lease_listener(&self, listener: Value) -> napi::Result<()> {
    *self.lease_listener.borrow_mut() = Some(Global(Engine::keep(listener)?));
    Ok(())
  }

  pub fn lease_listener(&self, env: Env) -> napi::Result<Option<Value>> {
    let listener = self.lease_listener.borrow();
    listener.as_ref().map(|listener| listener.get(env)).transpose()
  }
}
