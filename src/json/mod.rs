//! JSON as text: scanning, canonical form, layout, editing, comparing. Belongs here: functions on JSON texts of any depth, with lone
//! surrogates. Does not belong here: the meaning of a document, values of JSON as Rust types. Uses only `types`.

pub mod canonical;
pub mod edit;
pub mod equality;
pub mod layout;
pub mod scan;
