//! `exportSession` and `importSession`, which write and read files of the user.

use napi::Env;
use napi_derive::napi;

use crate::api::convert::engine::Value;
use crate::api::convert::results::{self, Failure, ImportResult};
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;
use crate::store::ExportFile;
use crate::store::user_files::{self, NewFile};

#[napi]
impl CheckpointStore {
  /// Writes a session into one export file, byte for byte: its document, its task tree and their earlier versions, labels,
  /// results, and all checkpoints, including those of its agents. If the file exists, the call rejects with `WAYMARK_EXISTS`.
  ///
  /// The file is a tar in zstd: `tar --zstd -tf file` lists it, and its `manifest.json` has the SHA-256 of every member.
  /// `logs/` and `damaged/` are not part of it. The file appears under its name when it is complete and durable.
  #[napi(
    ts_args_type = "sessionId: string, file: string, options?: ExportOptions",
    ts_return_type = "Promise<ExportResult>"
  )]
  pub fn export_session<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    file: Value,
    options: Value,
    control: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| {
        let session = arguments.session_id(session_id)?;
        let path = arguments.file(file)?;
        arguments.work_options(options)?;
        Ok((session, path, arguments.control(control)?))
      },
      |store, (session, path, control)| {
        let name = path.to_string_lossy().into_owned();
        let mut file = NewFile::create(path)?;
        let to = ExportFile {
          file: &mut file,
          name: &name,
        };
        let exported = store.export_session(&session, to, &control)?;
        let size = file.persist()?;
        Ok((name, exported, size))
      },
      |engine, (name, exported, size)| results::exported(engine, name, exported, size),
    )
  }

  /// Imports an export file, from this backend or another, in one step. If the session exists, the call rejects with
  /// `WAYMARK_EXISTS`; `as` gives the new session another id.
  ///
  /// The whole file is verified before the session becomes visible. If it is damaged or was not written by `exportSession()`, the
  /// call rejects with `WAYMARK_CORRUPT`.
  #[napi(
    ts_args_type = "file: string, options?: ImportOptions",
    ts_return_type = "Promise<ImportResult>"
  )]
  pub fn import_session<'env>(
    &self,
    env: &'env Env,
    file: Value,
    options: Value,
    control: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| {
        let path = arguments.file(file)?;
        let new_name = arguments.imported_as(options)?;
        Ok((path, new_name, arguments.control(control)?))
      },
      |store, (path, new_name, control)| {
        let from = ExportFile {
          file: user_files::open(&path)?,
          name: &path.to_string_lossy(),
        };
        store.import_session(from, new_name.as_ref(), &control)
      },
      results::into::<ImportResult, _>,
    )
  }
}
