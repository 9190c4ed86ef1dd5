//! Earlier versions of a document, beside it: `session.1.json` is the one before `session.json`.
//!
//! The document itself is there at every instant: the newest earlier version is a second name for its file, until the new
//! one takes the first.

use std::io;

use super::disk::{Contents, Directory};
use super::durable::{Durability, Temporary, absent_is_fine, temporary_name};
use super::is_absence;
use crate::backend::{Document, Item};

/// Makes room for a new version of the document of that file name, if it is one of those that have versions.
pub fn make_room<D: Directory>(session: &D, name: &str, keep: u32) -> io::Result<()> {
  let documents = Document::VERSIONED.into_iter();
  match documents
    .filter(|_| keep > 0)
    .find(|document| Item::Document(*document).file_name() == name)
  {
    Some(document) => shift(session, document, keep),
    None => Ok(()),
  }
}

fn shift<D: Directory>(session: &D, document: Document, keep: u32) -> io::Result<()> {
  let name = |back| Item::Previous(document, back).file_name();
  for back in (1..keep).rev() {
    absent_is_fine(session.rename(&name(back), session, &name(back + 1)))?;
  }
  let current = Item::Document(document).file_name();
  let temporary = temporary_name(&current);
  match session.hard_link(&current, &temporary) {
    Ok(()) => session
      .rename(&temporary, session, &name(1))
      .inspect_err(|_| drop(session.remove_file(&temporary))),
    Err(error) if is_absence(&error) => Ok(()),
    // Not every file system has second names.
    Err(_) => copy(session, &current, &name(1)),
  }
}

fn copy<D: Directory>(session: &D, from: &str, to: &str) -> io::Result<()> {
  match session.read(from, u64::MAX)? {
    Contents::Bytes(bytes) => Temporary::write(session, to, &bytes, Durability::Full)?.persist(to),
    Contents::NotAFile | Contents::TooLarge(_) => Err(io::Error::other("it is not a file")),
  }
}
