//! A session out of the store as one file, and in again as one step. The file itself is somebody else's matter.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::fork::exists;
use super::{Store, laid_out};
use crate::backend::{BackendExt, Document, Encoding, ItemName, ItemSource, Maintenance, NewItem, Series, time_in_id};
use crate::codec::archive::{Entry, Head, ReadError, Reader, Totals, Writer};
use crate::codec::delta::Reference;
use crate::codec::zstd::Aside;
use crate::json::edit::{Edit, edit, quoted};
use crate::json::layout::compact;
use crate::store::create::packed;
use crate::store::session_items::Listed;
use crate::types::error::{Code, Error, Result};
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::progress::{Control, Phase, Progress};

/// What to do about a session that is there already.
const HINT: &str = "Give the import another id with `as`, or delete it first";

/// Bytes that are handled before somebody may say stop.
const CHUNK: usize = 1 << 18;

/// What went out or came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
  pub session: SessionId,
  pub counts: Counts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
  pub checkpoints: u64,
  /// Everything else.
  pub documents: u64,
  /// As they are stored, without what the archive saves.
  pub bytes: u64,
}

/// A file that holds a session; `name` is what errors call it.
#[derive(Debug)]
pub struct Archive<'a, F> {
  pub file: F,
  pub name: &'a str,
}

impl Store {
  /// Writes everything of a session that this store knows, byte for byte, damaged or not. A session that does not exist is
  /// an error.
  pub fn export_session(
    &self,
    session: &SessionId,
    to: Archive<'_, impl Write>,
    control: &Control,
  ) -> Result<Archived> {
    let fail = |error| Error::io("write", Path::new(to.name), error);
    control.check()?;
    let (checkpoints, documents): (Vec<_>, Vec<_>) =
      self.items_of(session)?.into_iter().partition(Listed::is_checkpoint);
    let mut total = (checkpoints.len() + documents.len()) as u64;
    let head = Head {
      session_id: session.to_string(),
      items: total,
    };
    let mut writer = Writer::new(to.file, &head).map_err(fail)?;
    let mut counts = Counts::default();
    let mut are_versions_gone = false;
    let mut keys = HashMap::new();
    // Documents first: the checkpoints that they name were made before them, and are read after them. Keys too.
    for listed in documents.iter().chain(&checkpoints) {
      control.check()?;
      // Without the one before it, an earlier version has no number.
      let follows_none = are_versions_gone && matches!(listed.name, ItemName::Previous(_, back) if back > 1);
      let (name, bytes) = match self.item_for_export(session, listed, &keys)? {
        Some(read) if !follows_none => read,
        // It went away since it was listed, or it never was there.
        _ => {
          are_versions_gone = matches!(listed.name, ItemName::Previous(..));
          total -= 1;
          continue;
        }
      };
      are_versions_gone = false;
      if let ItemName::Base(agent, key) = &name {
        keys.insert((agent.clone(), key.clone()), bytes.len() as u64);
      }
      let entry = Entry {
        name: name.item().to_string(),
        size: bytes.len() as u64,
        is_pinned: listed.is_pinned(),
        made_at: listed.made_at(),
      };
      writer.begin_item(&entry).map_err(fail)?;
      for chunk in bytes.chunks(CHUNK) {
        control.check()?;
        writer.bytes(chunk).map_err(fail)?;
      }
      writer.end_item().map_err(fail)?;
      counts.add(&listed.name, entry.size);
      control.report(counts.progress(total));
    }
    // One that was deleted meanwhile is not one that had no more.
    if counts.items() == 0 || (counts.items() < head.items && self.is_gone(session)?) {
      return Err(Error::no_session(session));
    }
    control.check()?;
    writer.finish().map_err(fail)?;
    control.report(counts.progress(total));
    Ok(Archived {
      session: session.clone(),
      counts,
    })
  }

  /// What goes into an archive for an item; `None` if it does not exist any more. A checkpoint that was converted since it was
  /// listed goes in as it is now, and a delta whose key is not in the archive goes in whole.
  fn item_for_export(&self, session: &SessionId, listed: &Listed, keys: &ExportedKeys) -> Result<Option<Exported>> {
    let limit = self.options.max_read_bytes;
    let ItemName::Checkpoint(agent, id, listed_as) = &listed.name else {
      let bytes = self.backend.read(session, listed.name.item(), limit)?;
      return Ok(bytes.map(|bytes| (listed.name.clone(), bytes)));
    };
    let series = Series {
      session: session.clone(),
      agent: agent.clone(),
    };
    let name = |encoding| ItemName::Checkpoint(agent.clone(), id.clone(), encoding);
    let read = |encoding| {
      let bytes = self.backend.read(session, series.item(id, encoding), limit)?;
      Ok(bytes.map(|bytes| (encoding, bytes)))
    };
    let Some((encoding, bytes)) = self.in_its_encoding(&series, id, &[*listed_as], read)? else {
      return Ok(None);
    };
    let base = (encoding == Encoding::Delta).then(|| Reference::of(&bytes)).flatten();
    let lacks_key = base.is_some_and(|base| {
      let exported = keys.get(&(agent.clone(), base.key));
      exported.is_none_or(|bytes| *bytes < base.bytes)
    });
    if lacks_key && let Ok(Some(stored)) = self.read_checkpoint(&series, id, encoding) {
      let note = Aside::Note.find(&bytes).unwrap_or_default();
      return Ok(Some((name(Encoding::Zstd), packed(&stored.compact_text(), note))));
    }
    Ok(Some((name(encoding), bytes)))
  }

  /// Brings in what [`Store::export_session`] wrote, as one step, under its own id or another. All of it is checked before
  /// anything is written, and again while it is: the file is not ours. What it holds is not looked at beyond that: what
  /// was damaged when it went out comes in as it was, for a verification to find.
  pub fn import_session(
    &self,
    mut from: Archive<'_, impl Read + Seek>,
    new_name: Option<&SessionId>,
    control: &Control,
  ) -> Result<Archived> {
    control.check()?;
    let mut counts = Counts::default();
    let (own_name, totals) = self.walk(&mut from, Phase::Check, None, control, &mut |arriving| {
      counts.add(arriving.name, arriving.entry.size);
      Ok(())
    })?;
    let session = match new_name {
      Some(session) => session.clone(),
      None => SessionId::parse(&own_name)
        .map_err(|error| Error::corrupt(from.name, format!("its session has no good name: {error}")).because(error))?,
    };
    // It may be there all the same, and then that is noticed in the end; this saves the way there.
    if !self.is_gone(&session)? {
      return Err(exists(&session, HINT));
    }
    let source: &mut ItemSource<'_> = &mut |receive| {
      let receive_one = &mut |Arriving { name, entry, bytes }: Arriving<'_>| {
        let renamed = match (new_name, name) {
          (Some(session), ItemName::Document(Document::Session) | ItemName::Previous(Document::Session, _)) => {
            renamed(bytes, session)
          }
          _ => None,
        };
        receive(NewItem {
          item: name.item(),
          content: &renamed.as_deref().unwrap_or(bytes),
          is_pinned: entry.is_pinned,
          made_at: entry.made_at,
        })
      };
      self.walk(&mut from, Phase::Import, Some(totals), control, receive_one)?;
      Ok(())
    };
    if !self.backend.create_session(&session, Some(source))? {
      return Err(exists(&session, HINT));
    }
    self.forget(&session);
    // Where there is a link to the newest, it follows. It is for others: it keeps nobody from what they came for.
    let _ = self
      .backend
      .maintain(Maintenance::RefreshLatestLink(&Series::from(&session)));
    Ok(Archived { session, counts })
  }

  /// Whether nothing is stored of a session.
  fn is_gone(&self, session: &SessionId) -> Result<bool> {
    Ok(self.backend.usage_of(session)?.total_bytes == 0)
  }

  /// Goes through an archive from its beginning to its end. `visit` is told of each item, and gets its bytes if how many
  /// there are in all is known already. The answer is the session's own id, and how many there are.
  fn walk(
    &self,
    from: &mut Archive<'_, impl Read + Seek>,
    phase: Phase,
    known: Option<Totals>,
    control: &Control,
    visit: &mut Visit<'_>,
  ) -> Result<(String, Totals)> {
    let name = from.name;
    let refuse = |why: String| Error::corrupt(name, why);
    let fail = |error| match error {
      ReadError::Damaged(why) => refuse(why),
      ReadError::Newer(version) => Error::new(
        Code::NewerVersion,
        format!("{name} was written by a newer version (archive {version}). Update waymark to read it"),
      ),
      ReadError::Io(error) => Error::io("read", Path::new(name), error),
    };
    from
      .file
      .rewind()
      .map_err(|error| Error::io("read", Path::new(name), error))?;
    let (mut reader, head) = Reader::new(&mut from.file).map_err(fail)?;
    let mut seen = HashSet::new();
    let (mut buffer, mut bytes) = (vec![0; CHUNK], Vec::new());
    while let Some(entry) = reader.next_item().map_err(fail)? {
      let item = ItemName::parse(&entry.name).ok_or_else(|| {
        refuse(format!(
          "it holds {:?}, which is nothing that a session has",
          entry.name
        ))
      })?;
      if let Some(objection) = objection(&item, &entry, &seen) {
        return Err(refuse(format!("it holds {:?} {objection}", entry.name)));
      }
      if entry.size > self.options.max_read_bytes {
        let name = format!("{:?} in {name}", entry.name);
        return Err(Error::too_large(&name, entry.size, self.options.max_read_bytes));
      }
      bytes.clear();
      loop {
        control.check()?;
        let read = reader.read(&mut buffer).map_err(fail)?;
        if read == 0 {
          break;
        }
        if known.is_some() {
          bytes.extend_from_slice(&buffer[..read]);
        }
      }
      let arriving = Arriving {
        name: &item,
        entry: &entry,
        bytes: &bytes,
      };
      visit(arriving)?;
      seen.insert(item);
      let Totals { items, bytes } = reader.totals();
      control.report(Progress {
        phase,
        done: items,
        total: known.map_or(head.items.max(items), |known| known.items),
        bytes,
        total_bytes: known.map(|known| known.bytes),
      });
    }
    if seen.is_empty() {
      return Err(refuse("it holds nothing".to_owned()));
    }
    Ok((head.session_id, reader.totals()))
  }
}

/// An item of an archive, on its way in.
struct Arriving<'a> {
  name: &'a ItemName,
  entry: &'a Entry,
  bytes: &'a [u8],
}

/// A name in an archive, and the bytes that go by it.
type Exported = (ItemName, Vec<u8>);

/// The keys in an archive, and how many bytes each has.
type ExportedKeys = HashMap<(Option<AgentId>, CheckpointId), u64>;

type Visit<'a> = dyn FnMut(Arriving<'_>) -> Result<()> + 'a;

/// Why an item that has a name may still not come in, as the end of a sentence.
fn objection(item: &ItemName, entry: &Entry, seen: &HashSet<ItemName>) -> Option<&'static str> {
  let is_of_checkpoints = entry.is_pinned || entry.made_at.is_some();
  match item {
    _ if seen.contains(item) => Some("twice"),
    ItemName::Previous(document, back) if *back > 1 && !seen.contains(&ItemName::Previous(*document, back - 1)) => {
      Some("without the version after it")
    }
    ItemName::Checkpoint(_, id, _) if entry.made_at.is_some() && time_in_id(id.as_str()).is_some() => {
      Some("with another time than its own")
    }
    ItemName::Document(_) | ItemName::Previous(..) | ItemName::Base(..) | ItemName::TaskResult(_)
      if is_of_checkpoints =>
    {
      Some("with what only checkpoints have")
    }
    _ => None,
  }
}

/// A session's document under another id, so that whoever loads and saves it does not write over the one that it came from.
/// `None` if it is damaged: it comes in as it is.
fn renamed(document: &[u8], session: &SessionId) -> Option<Vec<u8>> {
  let text = compact(std::str::from_utf8(document).ok()?);
  let edited = edit(&text, &[Edit::Set("id", &quoted(session.as_str()))]).ok()?;
  laid_out(&edited).ok()
}

impl Counts {
  fn add(&mut self, name: &ItemName, bytes: u64) {
    match name {
      ItemName::Checkpoint(..) => self.checkpoints += 1,
      _ => self.documents += 1,
    }
    self.bytes += bytes;
  }

  fn items(self) -> u64 {
    self.checkpoints + self.documents
  }

  /// Of an export.
  fn progress(self, total: u64) -> Progress {
    Progress {
      phase: Phase::Export,
      done: self.items(),
      total,
      bytes: self.bytes,
      total_bytes: None,
    }
  }
}
