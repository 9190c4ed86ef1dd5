//! The JavaScript engine's own functions. They decide how values are spelt; nothing here imitates them.
//!
//! User objects are touched through [`Function::call`] alone: it is the one way that carries a thrown exception along
//! instead of leaving it pending.

use napi::bindgen_prelude::{
  FnArgs, FromNapiValue, Function, JsObjectValue, JsValue, JsValuesTupleIntoVec, Object, ToNapiValue, Unknown,
};
use napi::{Env, ValueType};

use crate::error::shortened;

/// A handle that is good for the callback in which it was made. None is kept longer.
pub type Value = Unknown<'static>;

#[derive(Clone, Copy)]
pub struct Engine<'env> {
  env: &'env Env,
}

impl<'env> Engine<'env> {
  pub fn new(env: &'env Env) -> Self {
    Self { env }
  }

  pub fn env(self) -> &'env Env {
    self.env
  }

  /// `JSON.stringify(value)`: `None` where it answers `undefined`.
  pub fn stringify(self, value: Value) -> napi::Result<Option<String>> {
    self.function::<Value, Option<String>>("JSON", "stringify")?.call(value)
  }

  /// `JSON.parse(text)`.
  pub fn parse(self, text: &str) -> napi::Result<Value> {
    self.function::<&str, Value>("JSON", "parse")?.call(text)
  }

  /// `object[name]`, whatever a getter does.
  pub fn get(self, object: Value, name: &str) -> napi::Result<Value> {
    self
      .function::<FnArgs<(Value, &str)>, Value>("Reflect", "get")?
      .call((object, name).into())
  }

  /// A new object with the own enumerable members of `object`, or with the entries of a Map.
  pub fn copy(self, object: Value) -> napi::Result<Object<'static>> {
    let entries = if self.is_map(object)? {
      object
    } else {
      self.function::<Value, Value>("Object", "entries")?.call(object)?
    };
    // fromEntries defines members, it does not assign them: a key "__proto__" stays data.
    self
      .function::<Value, Object<'static>>("Object", "fromEntries")?
      .call(entries)
  }

  /// Whether it is a Map, of this realm or another: test runners give their tests a global object of their own.
  pub fn is_map(self, value: Value) -> napi::Result<bool> {
    let to_string = self.prototype("Object")?.get_named_property_unchecked("toString")?;
    let tag: String = self.apply(to_string, value)?;
    match tag.as_str() {
      "[object Map]" => Ok(true),
      "[object Object]" => Ok(false),
      // A subclass may call itself anything; only a Map has this method for its own.
      _ => {
        let keys = self.prototype("Map")?.get_named_property_unchecked("keys")?;
        Ok(self.apply::<Value>(keys, value).is_ok())
      }
    }
  }

  /// `method.call(this)`
  fn apply<Return: FromNapiValue>(self, method: Value, this: Value) -> napi::Result<Return> {
    let apply = self.function::<FnArgs<(Value, Value, Vec<Value>)>, Return>("Reflect", "apply")?;
    apply.call((method, this, Vec::new()).into())
  }

  fn prototype(self, class: &str) -> napi::Result<Object<'env>> {
    self.namespace(class)?.get_named_property_unchecked("prototype")
  }

  /// `{}`
  pub fn object(self) -> napi::Result<Object<'static>> {
    let object: Function<'_, (), Object<'static>> = self.env.get_global()?.get_named_property_unchecked("Object")?;
    object.call(())
  }

  /// `new Error(message, { cause })` with a `code`.
  pub fn error<C: ToNapiValue>(self, message: &str, code: &str, cause: Option<C>) -> napi::Result<Value> {
    let mut options = self.object()?;
    if let Some(cause) = cause {
      options.set_named_property("cause", cause)?;
    }
    let constructor: Function<'_, FnArgs<(&str, Object<'static>)>, Value> =
      self.env.get_global()?.get_named_property_unchecked("Error")?;
    let error: Value = constructor.new_instance((message, options).into())?;
    error.coerce_to_object()?.set_named_property("code", code)?;
    Ok(error)
  }

  /// A Rust value as the engine sees it.
  pub fn value(self, value: impl ToNapiValue) -> napi::Result<Value> {
    let mut holder = self.object()?;
    holder.set_named_property("value", value)?;
    holder.get_named_property_unchecked("value")
  }

  /// What a value is, as an error message shows it.
  pub fn describe(self, value: Value) -> String {
    match value.get_type() {
      Ok(ValueType::Undefined) => "undefined".to_owned(),
      Ok(ValueType::Null) => "null".to_owned(),
      Ok(ValueType::String) => format!("{:?}", shortened(&text_of(value).unwrap_or_default())),
      Ok(ValueType::Number) => number_of(value).unwrap_or_default().to_string(),
      Ok(ValueType::Boolean) => value.coerce_to_bool().unwrap_or_default().to_string(),
      Ok(ValueType::Function) => "a function".to_owned(),
      Ok(ValueType::Symbol) => "a symbol".to_owned(),
      Ok(ValueType::BigInt) => "a BigInt".to_owned(),
      _ if value.is_array().unwrap_or(false) => "an array".to_owned(),
      _ if self.is_map(value).unwrap_or(false) => "a Map".to_owned(),
      _ => "an object".to_owned(),
    }
  }

  fn namespace(self, name: &str) -> napi::Result<Object<'env>> {
    self.env.get_global()?.get_named_property_unchecked(name)
  }

  fn function<Args: JsValuesTupleIntoVec, Return: FromNapiValue>(
    self,
    namespace: &str,
    name: &str,
  ) -> napi::Result<Function<'env, Args, Return>> {
    self.namespace(namespace)?.get_named_property_unchecked(name)
  }
}

/// The text of a string; `None` for everything else.
pub fn text_of(value: Value) -> Option<String> {
  let is_string = matches!(value.get_type(), Ok(ValueType::String));
  let text = is_string.then(|| value.coerce_to_string()?.into_utf8()?.into_owned());
  text.and_then(Result::ok)
}

/// A number; `None` for everything else.
pub fn number_of(value: Value) -> Option<f64> {
  let is_number = matches!(value.get_type(), Ok(ValueType::Number));
  let number = is_number.then(|| value.coerce_to_number()?.get_double());
  number.and_then(Result::ok)
}
