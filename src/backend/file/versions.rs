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
  let mut documents = Document::VERSIONED.into_iter();
  match documents.find(|document| Item::Document(*document).file_name() == name) {
    Some(document) => shift(session, document, keep),
    None => Ok(()),
  }
}

fn shift<D: Directory>(session: &D, document: Document, keep: u32) -> io::Result<()> {
  let name = |back| Item::version(document, back).file_name();
  // The oldest first: a version is never missing while another takes its name.
  for back in (0..keep).rev() {
    also_as(session, &name(back), &name(back + 1))?;
  }
  // Somebody may have kept more before.
  for back in keep + 1.. {
    match session.remove_file(&name(back)) {
      Err(error) if is_absence(&error) => break,
      removed => removed?,
    }
  }
  Ok(())
}

/// Lets `second` name what `first` names too, if there is anything.
fn also_as<D: Directory>(session: &D, first: &str, second: &str) -> io::Result<()> {
  let temporary = temporary_name(first);
  match session.hard_link(first, &temporary) {
    Ok(()) => {
      let renamed = session.rename(&temporary, session, second);
      // Renaming a file onto another name of itself leaves both.
      let removed = absent_is_fine(session.remove_file(&temporary));
      renamed.and(removed)
    }
    Err(error) if is_absence(&error) => Ok(()),
    // Not every file system has second names.
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
