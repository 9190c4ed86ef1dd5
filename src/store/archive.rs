//! Export and import of sessions: the order of the items, and which of them an import accepts. [`crate::codec::archive`] has the
//! format of the file.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use super::fork::exists;
use super::{Store, labels, laid_out};
use crate::backend::{
  BackendExt, Document, Encoding, Item, ItemName, ItemSource, Maintenance, NewItem, Series, time_in_id,
};
use crate::codec::archive::{
  ArchiveError, ArchiveHead, ArchiveReader, ArchiveWriter, Manifest, ManifestEntry, NewMember,
};
use crate::codec::delta::Reference;
use crate::codec::zstd::SkippableFrame;
use crate::json::edit::{Edit, edit, quoted};
use crate::json::layout::compact;
use crate::store::session_items::Listed;
use crate::store::write::packed;
use crate::types::error::{Code, Error, Result};
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::progress::{Control, Phase, Progress};
use crate::types::time::Timestamp;

/// What to do if the session exists already.
const HINT: &str = "Give the import another id with `as`, or delete it first";

/// The bytes that an import reads between two checks for cancellation.
const CHUNK: usize = 1 << 18;

/// A session that was exported or imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferredSession {
  pub session: SessionId,
  pub counts: TransferCounts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferCounts {
  pub checkpoints: u64,
  /// All other items.
  pub documents: u64,
  /// Uncompressed by the file.
  pub bytes: u64,
}

/// A file that a session is exported to or imported from; errors use the `name`.
#[derive(Debug)]
pub struct ExportFile<'a, F> {
  pub file: F,
  pub name: &'a str,
}

impl Store {
  /// Writes all items of a session byte for byte, damaged or not. A session that does not exist is an error.
  pub fn export_session(
    &self,
    session: &SessionId,
    to: ExportFile<'_, impl Write>,
    control: &Control,
  ) -> Result<TransferredSession> {
    let fail = |error| Error::io("write", Path::new(to.name), error);
    control.check()?;
    let (checkpoints, mut documents): (Vec<_>, Vec<_>) =
      self.items_of(session)?.into_iter().partition(Listed::is_checkpoint);
    if !self.has_labels_of(session, &checkpoints)? {
      documents.retain(|listed| listed.name != ItemName::Document(Document::Labels));
    }
    let mut total = (checkpoints.len() + documents.len()) as u64;
    let head = ArchiveHead {
      session_id: session.to_string(),
      items: total,
    };
    let mut writer = ArchiveWriter::new(to.file, &head).map_err(fail)?;
    let mut counts = TransferCounts::default();
    let mut is_version_missing = false;
    let mut bases = HashMap::new();
    // Documents and bases first: a checkpoint that they name was stored before them and is read after them.
    for listed in documents.iter().chain(&checkpoints) {
      control.check()?;
      // Versions are numbered without gaps: skip those behind a missing one.
      let is_behind_gap = is_version_missing && matches!(listed.name, ItemName::Previous(_, back) if back > 1);
      let (name, bytes) = match self.item_for_export(session, listed, &bases)? {
        Some(read) if !is_behind_gap => read,
        // It was deleted since it was listed, or is a document that the session does not have.
        _ => {
          is_version_missing = matches!(listed.name, ItemName::Previous(..));
          total -= 1;
          continue;
        }
      };
      is_version_missing = false;
      if let ItemName::Base(agent, base) = &name {
        bases.insert((agent.clone(), base.clone()), bytes.len() as u64);
      }
      let member = NewMember {
        name: name.item().to_string(),
        size: bytes.len() as u64,
        modified: listed
          .entry
          .as_ref()
          .map_or(0, |entry| entry.made_at.as_millis() / 1000),
        is_pinned: listed.is_pinned(),
        made_at: listed.made_at(),
      };
      let content = CancellableReader { bytes: &bytes, control };
      writer.append(&member, content).map_err(fail)?;
      counts.add(&listed.name, member.size);
      control.report(counts.export_progress(total));
    }
    // If the session was deleted during the export, items are missing from the file.
    let may_be_gone = counts.bytes > 0 && counts.items() < head.items;
    if counts.items() == 0 || (may_be_gone && self.is_gone(session)?) {
      return Err(Error::no_session(session));
    }
    control.check()?;
    writer.finish().map_err(fail)?;
    control.report(counts.export_progress(total));
    Ok(TransferredSession {
      session: session.clone(),
      counts,
    })
  }

  /// Whether the labels of a session may belong to one of these checkpoints. Labels of deleted checkpoints remain in the document
  /// until the next change of it: alone, they do not make a session.
  fn has_labels_of(&self, session: &SessionId, checkpoints: &[Listed]) -> Result<bool> {
    let Some(bytes) = self.backend.read(session, Item::LABELS, self.options.max_read_bytes)? else {
      return Ok(false);
    };
    let ids = checkpoints.iter().filter_map(|listed| match &listed.name {
      ItemName::Checkpoint(None, id, _) => Some(id.clone()),
      _ => None,
    });
    let path = self.backend.name_of(session, Item::LABELS);
    // A damaged document is exported as it is.
    Ok(labels::parse(bytes, &path).map_or(true, |labels| !labels.only(&ids.collect()).is_empty()))
  }

  /// The name and the bytes of an item in the file; `None` if the item does not exist any more. A checkpoint that was converted since it
  /// was listed has its new encoding, and a delta whose base is not in the file is exported whole.
  fn item_for_export(
    &self,
    session: &SessionId,
    listed: &Listed,
    bases: &ExportedBases,
  ) -> Result<Option<ExportedItem>> {
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
    let Some((encoding, bytes)) = self.in_current_encoding(&series, id, &[*listed_as], read)? else {
      return Ok(None);
    };
    let base = (encoding == Encoding::Delta).then(|| Reference::of(&bytes)).flatten();
    let lacks_base = base.is_some_and(|base| {
      let exported = bases.get(&(agent.clone(), base.key));
      exported.is_none_or(|bytes| *bytes < base.bytes)
    });
    if lacks_base && let Ok(Some(stored)) = self.read_checkpoint(&series, id, encoding) {
      let note = SkippableFrame::Note.find(&bytes).unwrap_or_default();
      return Ok(Some((name(Encoding::Zstd), packed(&stored.compact_text(), note))));
    }
    Ok(Some((name(encoding), bytes)))
  }

  /// Imports a file of [`Store::export_session`] in one atomic step, under its own id or another one. The whole file is verified
  /// before anything is written, and again while it is imported, because it may change in between. The items are not verified: a
  /// damaged item is imported as it is.
  pub fn import_session(
    &self,
    mut from: ExportFile<'_, impl Read + Seek>,
    new_id: Option<&SessionId>,
    control: &Control,
  ) -> Result<TransferredSession> {
    control.check()?;
    let (own_id, manifest) = self.read_export(&mut from, None, control)?;
    let mut counts = TransferCounts::default();
    for (entry, name) in manifest
      .entries()
      .iter()
      .filter_map(|entry| Some((entry, ItemName::parse(&entry.name)?)))
    {
      counts.add(&name, entry.size);
    }
    let session = match new_id {
      Some(session) => session.clone(),
      None => SessionId::parse(&own_id)
        .map_err(|error| Error::corrupt(from.name, format!("its session has no valid id: {error}")).because(error))?,
    };
    // `create_session` makes the decision. This check usually saves the second pass.
    if !self.is_gone(&session)? {
      return Err(exists(&session, HINT));
    }
    let source: &mut ItemSource<'_> = &mut |sink| {
      let visit = &mut |name: &ItemName, entry: &ManifestEntry, bytes: &[u8]| {
        let renamed = match (new_id, name) {
          (Some(session), ItemName::Document(Document::Session) | ItemName::Previous(Document::Session, _)) => {
            renamed(bytes, session)
          }
          _ => None,
        };
        sink(NewItem {
          item: name.item(),
          content: &renamed.as_deref().unwrap_or(bytes),
          is_pinned: entry.is_pinned,
          made_at: entry.made_at,
        })
      };
      self.read_export(&mut from, Some((&manifest, visit)), control)?;
      Ok(())
    };
    if !self.backend.create_session(&session, Some(source))? {
      return Err(exists(&session, HINT));
    }
    self.forget(&session);
    // The import is complete without the latest link, so a failure to update it is ignored.
    let link = Maintenance::RefreshLatestLink(&Series::from(&session));
    let _ = self.backend.maintain(link);
    Ok(TransferredSession { session, counts })
  }

  /// Whether nothing is stored of a session.
  fn is_gone(&self, session: &SessionId) -> Result<bool> {
    Ok(self.backend.usage_of(session)?.total_bytes == 0)
  }

  /// Reads an export file from beginning to end. The first pass verifies it; the second one expects the same manifest and visits
  /// the items. Returns the session id in the file, and the manifest.
  fn read_export(
    &self,
    from: &mut ExportFile<'_, impl Read + Seek>,
    mut second_pass: Option<(&Manifest, &mut ItemVisitor<'_>)>,
    control: &Control,
  ) -> Result<(String, Manifest)> {
    let name = from.name;
    let refuse = |why: String| Error::corrupt(name, why);
    let fail_io = |error| Error::io("read", Path::new(name), error);
    let fail = |error| match error {
      ArchiveError::Damaged(why) => refuse(why),
      ArchiveError::Newer(version) => Error::new(
        Code::NewerVersion,
        format!("{name} was written by a newer version (format {version}). Update waymark to read it"),
      ),
      ArchiveError::Io(error) => fail_io(error),
    };
    from.file.rewind().map_err(fail_io)?;
    let (mut reader, head) = ArchiveReader::new(&mut from.file).map_err(fail)?;
    let mut items = HashSet::new();
    let expected = second_pass.as_ref().map(|(manifest, _)| *manifest);
    let mut entries = expected.map_or(&[][..], Manifest::entries).iter();
    let (mut buffer, mut bytes) = (vec![0; CHUNK], Vec::new());
    while let Some(header) = reader.next_member().map_err(fail)? {
      let item = ItemName::parse(&header.name)
        .ok_or_else(|| refuse(format!("it holds {:?}, which is not an item of a session", header.name)))?;
      if let Some(objection) = objection(&item, &items) {
        return Err(refuse(format!("it holds {:?} {objection}", header.name)));
      }
      if header.size > self.options.max_read_bytes {
        let name = format!("{:?} in {name}", header.name);
        return Err(Error::too_large(&name, header.size, self.options.max_read_bytes));
      }
      bytes.clear();
      loop {
        control.check()?;
        let read = reader.read(&mut buffer).map_err(fail)?;
        if read == 0 {
          break;
        }
        if expected.is_some() {
          bytes.extend_from_slice(&buffer[..read]);
        }
      }
      if let Some((_, visit)) = &mut second_pass {
        let entry = entries
          .next()
          .filter(|entry| (&entry.name, entry.size) == (&header.name, header.size));
        visit(&item, entry.ok_or_else(|| refuse(CHANGED.to_owned()))?, &bytes)?;
      }
      items.insert(item);
      let so_far = reader.so_far();
      control.report(Progress {
        phase: expected.map_or(Phase::Check, |_| Phase::Import),
        done: so_far.items,
        total: expected.map_or(head.items.max(so_far.items), |manifest| manifest.items),
        bytes: so_far.bytes,
        total_bytes: expected.map(|manifest| manifest.bytes),
      });
    }
    let manifest = reader.into_manifest().unwrap_or_default();
    if items.is_empty() {
      return Err(refuse("it holds no items".to_owned()));
    }
    if expected.is_some_and(|expected| *expected != manifest) {
      return Err(refuse(CHANGED.to_owned()));
    }
    for entry in manifest.entries() {
      if let Some(objection) = metadata_objection(entry) {
        return Err(refuse(format!("it holds {:?} {objection}", entry.name)));
      }
    }
    Ok((head.session_id, manifest))
  }
}

const CHANGED: &str = "it was changed while it was read";

/// Called with the name, the metadata and the bytes of each item of an export file.
type ItemVisitor<'a> = dyn FnMut(&ItemName, &ManifestEntry, &[u8]) -> Result<()> + 'a;

/// The name of an item in the file, and its bytes.
type ExportedItem = (ItemName, Vec<u8>);

/// The bases in the file, and how many bytes each has.
type ExportedBases = HashMap<(Option<AgentId>, CheckpointId), u64>;

/// Reads the bytes of an item. Fails when the export is cancelled.
struct CancellableReader<'a> {
  bytes: &'a [u8],
  control: &'a Control,
}

impl Read for CancellableReader<'_> {
  fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
    self.control.check().map_err(io::Error::other)?;
    self.bytes.read(buffer)
  }
}

/// Why an item with a valid name is refused after the items before it, as the end of a sentence.
fn objection(item: &ItemName, before: &HashSet<ItemName>) -> Option<&'static str> {
  match item {
    _ if before.contains(item) => Some("twice"),
    ItemName::Checkpoint(agent, id, _) if has_checkpoint(before, agent.as_ref(), id) => Some("in a second encoding"),
    ItemName::Previous(document, back) if *back > 1 && !before.contains(&ItemName::Previous(*document, back - 1)) => {
      Some("without the version after it")
    }
    _ => None,
  }
}

fn has_checkpoint(items: &HashSet<ItemName>, agent: Option<&AgentId>, id: &CheckpointId) -> bool {
  let in_encoding = |encoding| ItemName::Checkpoint(agent.cloned(), id.clone(), encoding);
  Encoding::ALL
    .into_iter()
    .any(|encoding| items.contains(&in_encoding(encoding)))
}

/// The last time that a JavaScript `Date` can represent. Later ids must remain possible: they end at 2^53 ms.
const LAST_DATE: Timestamp = Timestamp::from_millis(8_640_000_000_000_000);

/// Why the metadata of an item is refused, as the end of a sentence.
fn metadata_objection(entry: &ManifestEntry) -> Option<&'static str> {
  match ItemName::parse(&entry.name)? {
    ItemName::Checkpoint(_, id, _) => {
      let made_at = entry.made_at?;
      (made_at > LAST_DATE || time_in_id(id.as_str()).is_some()).then_some("with another time than its own")
    }
    _ => (entry.is_pinned || entry.made_at.is_some()).then_some("with metadata that only checkpoints have"),
  }
}

/// A session document under another id, so that saving it does not overwrite the session that it came from. `None` if it is
/// damaged: it is imported as it is.
fn renamed(document: &[u8], session: &SessionId) -> Option<Vec<u8>> {
  let text = compact(std::str::from_utf8(document).ok()?);
  let edited = edit(&text, &[Edit::Set("id", &quoted(session.as_str()))]).ok()?;
  laid_out(&edited).ok()
}

impl TransferCounts {
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

  fn export_progress(self, total: u64) -> Progress {
    Progress {
      phase: Phase::Export,
      done: self.items(),
      total,
      bytes: self.bytes,
      total_bytes: None,
    }
  }
}
