//! JSON as text: scanning, indenting, editing, comparing. Belongs here: functions from text to text, for values of any depth
//! and with lone surrogates. Does not belong here: what a document means. Uses only `types`.

pub mod canonical;
pub mod edit;
pub mod equality;
pub mod layout;
pub mod scan;
