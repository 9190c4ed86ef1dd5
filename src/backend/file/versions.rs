//! Earlier versions of a document, in the same directory: `session.1.json` is the one before `session.json`.
//!
//! The document itself exists at every moment: its file gets the name of the earlier version as a second hard link, before the
//! new document replaces the first one.

use std::io;

use super::disk::{Contents, Directory};
use super::durable::{Durability, Temporary, absent_is_fine, temporary_name};
use super::is_absence;
use crate::backend::{Document, Item};

/// Keeps the current version of a document before it is replaced, if the document of that file name has versions.
pub fn keep_current<D: Directory>(session: &D, name: &str, keep: u32) -> io::Result<()> {
  let mut documents = Document::VERSIONED.into_iter();
  match documents.find(|document| Item::Document(*document).file_name() == name) {
    Some(document) => shift(session, document, keep),
    None => Ok(()),
  }
}

fn shift<D: Directory>(session: &D, document: Document, keep: u32) -> io::Result<()> {
  let name = |back| Item::version(document, back).file_name();
  // The oldest first, so that every version exists at every moment.
  for back in (0..keep).rev() {
    link_as(session, &name(back), &name(back + 1))?;
  }
  // Delete versions beyond `keep`, which may have been larger before.
  for back in keep + 1.. {
    match session.remove_file(&name(back)) {
      Err(error) if is_absence(&error) => break,
      removed => removed?,
    }
  }
  Ok(())
}

/// Makes `second` a hard link of `first`, if that exists.
fn link_as<D: Directory>(session: &D, first: &str, second: &str) -> io::Result<()> {
  let temporary = temporary_name(first);
  match session.hard_link(first, &temporary) {
    Ok(()) => {
      let renamed = session.rename(&temporary, session, second);
      // Renaming a file to another hard link of itself keeps both names.
      let removed = absent_is_fine(session.remove_file(&temporary));
      renamed.and(removed)
    }
    Err(error) if is_absence(&error) => Ok(()),
    // Not every file system has hard links.
    Err(_) => copy(session, first, second),
  }
}

fn copy<D: Directory>(session: &D, from: &str, to: &str) -> io::Result<()> {
  match session.read(from, u64::MAX) {
    Ok(Contents::Bytes(bytes)) => Temporary::write(session, to, &bytes, Durability::Full)?.persist(to),
    Ok(Contents::NotAFile | Contents::TooLarge(_)) => Err(io::Error::other("it is not a file")),
    Err(error) if is_absence(&error) => Ok(()),
    Err(error) => Err(error),
  }
}
