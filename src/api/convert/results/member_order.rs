//! Result types whose required members follow optional ones.

/// Implements `ToNapiValue` for a result type: sets the members in the given order, and leaves out those marked with
/// `if some` that are `None`.
///
/// The implementation that `#[napi(object)]` derives sets all optional members last. The order of the members would change for
/// programs that print a result.
macro_rules! members_in_order {
  ($result:ident { $($field:ident = $name:literal $(if $some:tt)?),+ $(,)? }) => {
    #[expect(unsafe_code, reason = "the method of the trait is unsafe")]
    impl napi::bindgen_prelude::ToNapiValue for $result {
      unsafe fn to_napi_value(
        env: napi::sys::napi_env,
        result: Self,
      ) -> napi::Result<napi::sys::napi_value> {
        let Self { $($field),+ } = result;
        let mut object = napi::bindgen_prelude::Object::new(&napi::Env::from_raw(env))?;
        $(members_in_order!(@set object $name $field $($some)?);)+
        Ok(napi::bindgen_prelude::JsValue::raw(&object))
      }
    }
  };
  (@set $object:ident $name:literal $field:ident) => {
    napi::bindgen_prelude::JsObjectValue::set_named_property(&mut $object, $name, $field)?
  };
  (@set $object:ident $name:literal $field:ident some) => {
    if let Some(value) = $field {
      napi::bindgen_prelude::JsObjectValue::set_named_property(&mut $object, $name, value)?;
    }
  };
}
