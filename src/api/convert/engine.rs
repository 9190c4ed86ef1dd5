//! Calls of the JavaScript engine's built-in functions, which alone decide how values are serialized.
//!
//! Objects of the user are only accessed through these functions, because a call returns a thrown exception instead of leaving it
//! pending.

use std::ptr;

use napi::bindgen_prelude::{
  FnArgs, FromNapiValue, Function, JsObjectValue, JsValue, JsValuesTupleIntoVec, Object, ToNapiValue, Unknown,
  Utf16String,
};
use napi::{Env, JsString, Status, UnknownRef, ValueType, sys};

use crate::api::convert::error::NOT_AN_ERROR;
use crate::api::convert::globals::{Global, Globals};
use crate::api::convert::text::Text;
use crate::types::error::shortened;

/// A handle to a value. It is valid in the callback in which it was created, and must not be kept longer; see [`Engine::keep`].
pub type Value = Unknown<'static>;

/// A reference that keeps a value alive: see [`Engine::keep`].
pub type Kept = UnknownRef<false>;

/// The kind of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collection {
  Map,
  Set,
  None,
}

#[derive(Clone, Copy)]
pub struct Engine<'env> {
  env: &'env Env,
  globals: &'static Globals,
}

impl<'env> Engine<'env> {
  pub fn new(env: &'env Env) -> napi::Result<Self> {
    Ok(Self {
      env,
      globals: Globals::of(*env)?,
    })
  }

  pub fn env(self) -> &'env Env {
    self.env
  }

  /// `JSON.stringify(value)`; `None` if it returns `undefined`.
  pub fn stringify(self, value: Value) -> napi::Result<Option<Text>> {
    let text: Option<JsString<'_>> = self.call(&self.globals.stringify, value)?;
    text.map(|text| Text::copy(*self.env, text)).transpose()
  }

  /// `JSON.parse(text)`.
  pub fn parse(self, text: &str) -> napi::Result<Value> {
    self.call(&self.globals.parse, text)
  }

  /// `JSON.parse(text)` for UTF-16.
  pub fn parse_wide(self, text: Utf16String) -> napi::Result<Value> {
    self.call(&self.globals.parse, text)
  }

  /// `object[name]`, also if a getter throws.
  pub fn get(self, object: Value, name: &str) -> napi::Result<Value> {
    self.call(&self.globals.reflect_get, FnArgs::from((object, name)))
  }

  /// A new object with the own enumerable members of an object, or with the entries of a Map.
  pub fn copy(self, object: Value) -> napi::Result<Object<'static>> {
    let entries = if self.collection(object)? == Collection::Map {
      object
    } else {
      self.call(&self.globals.entries, object)?
    };
    // fromEntries defines members, it does not assign them: a key "__proto__" stays data.
    self.call(&self.globals.from_entries, entries)
  }

  /// Whether the prototype of an object is `null` or `Object.prototype`.
  pub fn is_plain(self, object: Value) -> napi::Result<bool> {
    let prototype: Value = self.call(&self.globals.get_prototype_of, object)?;
    if prototype.get_type()? == ValueType::Null {
      return Ok(true);
    }
    let of_objects: Value = self.globals.object_prototype.get(*self.env)?;
    self.env.strict_equals(prototype, of_objects)
  }

  /// The kind of a collection, of this realm or another: test runners have a global object for each test.
  pub fn collection(self, value: Value) -> napi::Result<Collection> {
    // Most objects are, and the check below throws an exception for them.
    if self.is_plain(value)? {
      return Ok(Collection::None);
    }
    // The method accepts only a Map, or an instance of a subclass.
    if self.apply::<Value>(&self.globals.map_keys, value).is_ok() {
      return Ok(Collection::Map);
    }
    // The method does not accept a proxy of a Map; its tag is still that of a Map.
    let tag: String = self.apply(&self.globals.object_to_string, value)?;
    Ok(match tag.as_str() {
      "[object Map]" => Collection::Map,
      "[object Set]" => Collection::Set,
      _ => Collection::None,
    })
  }

  /// `Array.isArray(value)`, which is also true for a proxy of an array.
  pub fn is_array(self, value: Value) -> napi::Result<bool> {
    self.call(&self.globals.is_array, value)
  }

  /// `method.call(this)`
  fn apply<Return: FromNapiValue>(self, method: &Global, this: Value) -> napi::Result<Return> {
    let method: Value = method.get(*self.env)?;
    self.call(
      &self.globals.reflect_apply,
      FnArgs::from((method, this, Vec::<Value>::new())),
    )
  }

  /// `{}`
  pub fn object(self) -> napi::Result<Object<'static>> {
    let object: Function<'_, (), Object<'static>> = self.globals.object.get(*self.env)?;
    object.call(())
  }

  /// `new Error(message, { cause })` with a `code`.
  pub fn error<C: ToNapiValue>(self, message: &str, code: &str, cause: Option<C>) -> napi::Result<Value> {
    let mut options = self.object()?;
    if let Some(cause) = cause {
      options.set_named_property("cause", cause)?;
    }
    let constructor: Function<'_, FnArgs<(&str, Object<'static>)>, Value> = self.globals.error.get(*self.env)?;
    let error: Value = constructor.new_instance((message, options).into())?;
    error.coerce_to_object()?.set_named_property("code", code)?;
    Ok(error)
  }

  /// Converts a Rust value.
  pub fn value(self, value: impl ToNapiValue) -> napi::Result<Value> {
    let mut holder = self.object()?;
    holder.set_named_property("value", value)?;
    holder.get_named_property_unchecked("value")
  }

  /// Keeps a value alive beyond this callback. The reference must be converted by [`Engine::value`] or freed by
  /// [`Engine::release`].
  pub fn keep(value: Value) -> napi::Result<Kept> {
    Kept::from_unknown(value)
  }

  pub fn release(self, kept: Kept) {
    // It fails only when the environment shuts down, which frees all references.
    let _ = kept.unref(self.env);
  }

  /// Sets the function that [`Engine::lease_is_lost`] calls.
  pub fn set_lease_listener(self, listener: Value) -> napi::Result<()> {
    self.globals.set_lease_listener(listener)
  }

  /// Reports a lost lease to the listener.
  #[expect(
    clippy::cast_precision_loss,
    reason = "the numbers of stores and leases are below 2^53"
  )]
  pub fn lease_is_lost(self, store: u64, session: &str, number: u64, error: Value) -> napi::Result<()> {
    let Some(listener) = self.globals.lease_listener(*self.env)? else {
      return Ok(());
    };
    let arguments = FnArgs::from((store as f64, session, number as f64, error));
    match self.call_raw(listener, arguments)? {
      Ok(_) => Ok(()),
      Err(thrown) => Err(self.thrown(thrown)),
    }
  }

  /// Describes a value for an error message.
  pub fn describe(self, value: Value) -> String {
    match value.get_type() {
      Ok(ValueType::Undefined) => "undefined".to_owned(),
      Ok(ValueType::Null) => "null".to_owned(),
      Ok(ValueType::String) => format!("{:?}", shortened(&text_of(value).unwrap_or_default())),
      Ok(ValueType::Number) => value
        .coerce_to_string()
        .and_then(|text| text.into_utf8()?.into_owned())
        .unwrap_or_default(),
      Ok(ValueType::Boolean) => value.coerce_to_bool().unwrap_or_default().to_string(),
      Ok(ValueType::Function) => "a function".to_owned(),
      Ok(ValueType::Symbol) => "a symbol".to_owned(),
      Ok(ValueType::BigInt) => "a BigInt".to_owned(),
      _ if self.is_array(value).unwrap_or(false) => "an array".to_owned(),
      _ => match self.collection(value) {
        Ok(Collection::Map) => "a Map".to_owned(),
        Ok(Collection::Set) => "a Set".to_owned(),
        _ => "an object".to_owned(),
      },
    }
  }

  /// Calls a function of the engine. An exception becomes the error.
  fn call<Args: JsValuesTupleIntoVec, Return: FromNapiValue>(
    self,
    function: &Global,
    arguments: Args,
  ) -> napi::Result<Return> {
    let function: Value = function.get(*self.env)?;
    match self.call_raw(function, arguments)? {
      Ok(returned) => Return::from_unknown(returned),
      Err(thrown) => Err(self.thrown(thrown)),
    }
  }

  /// Calls a function: `Ok` with its result, or `Err` with the thrown value. napi's safe call loses thrown values that are not
  /// objects.
  #[expect(unsafe_code, reason = "napi has no safe function that returns the thrown value")]
  fn call_raw<Args: JsValuesTupleIntoVec>(
    self,
    function: Value,
    arguments: Args,
  ) -> napi::Result<Result<Value, Value>> {
    let env = self.env.raw();
    let (this, arguments) = (self.value(())?, arguments.into_vec(env)?);
    let mut result = ptr::null_mut();
    // SAFETY: all handles belong to the running callback, and `arguments` has the given length.
    let status = unsafe {
      sys::napi_call_function(
        env,
        this.raw(),
        function.raw(),
        arguments.len(),
        arguments.as_ptr(),
        &raw mut result,
      )
    };
    match status {
      // SAFETY: the engine has set `result` to a handle of the running callback.
      sys::Status::napi_ok => Ok(Ok(unsafe { Value::from_raw_unchecked(env, result) })),
      sys::Status::napi_pending_exception => {
        // SAFETY: an exception is pending, and the call stores a handle to it in `result`.
        let taken = unsafe { sys::napi_get_and_clear_last_exception(env, &raw mut result) };
        if taken != sys::Status::napi_ok {
          return Err(napi::Error::from_status(Status::from(taken)));
        }
        // SAFETY: as above.
        Ok(Err(unsafe { Value::from_raw_unchecked(env, result) }))
      }
      other => Err(napi::Error::from_status(Status::from(other))),
    }
  }

  /// An error that keeps a thrown value alive; [`Engine::thrown_value`] returns the value.
  fn thrown(self, value: Value) -> napi::Error {
    let is_object = matches!(value.get_type(), Ok(ValueType::Object | ValueType::Function));
    if is_object {
      let error = napi::Error::from(value);
      // napi converts the value to text, which may throw, and leaves that exception pending. The next call clears it.
      let _ = self.object();
      return error;
    }
    // Only objects can be referenced.
    let holder = self.object().and_then(|mut holder| {
      holder.set_named_property(THROWN, value)?;
      Ok(holder.to_unknown())
    });
    match holder {
      Ok(holder) => {
        let mut error = napi::Error::from(holder);
        error.status = Status::PendingException;
        NOT_AN_ERROR.clone_into(&mut error.reason);
        error
      }
      Err(error) => error,
    }
  }

  /// The value that was thrown.
  pub fn thrown_value(self, error: napi::Error) -> napi::Result<Value> {
    let may_have_holder = error.status == Status::PendingException;
    let value = self.value(error)?;
    if may_have_holder {
      let holder = value.coerce_to_object()?;
      if holder.has_own_property(THROWN)? {
        return holder.get_named_property_unchecked(THROWN);
      }
    }
    Ok(value)
  }
}

/// The member of the holder object that has a thrown value which is not an object.
const THROWN: &str = "waymark.thrown";

/// The text of a string; `None` for other values.
pub fn text_of(value: Value) -> Option<String> {
  let is_string = matches!(value.get_type(), Ok(ValueType::String));
  let text = is_string.then(|| value.coerce_to_string()?.into_utf8()?.into_owned());
  text.and_then(Result::ok)
}

/// The value of a number; `None` for other values.
pub fn number_of(value: Value) -> Option<f64> {
  let is_number = matches!(value.get_type(), Ok(ValueType::Number));
  let number = is_number.then(|| value.coerce_to_number()?.get_double());
  number.and_then(Result::ok)
}
