//! Sessions out of the store and in: the methods that know files of the user's.

use napi::Env;
use napi_derive::napi;

use crate::api::convert::engine::Value;
use crate::api::convert::results::{self, Failure};
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;
use crate::backend::user_files::{self, NewFile};
use crate::store::Archive;

#[napi]
impl CheckpointStore {
  /// Writes a session into one compressed file that can be carried: its document, its task tree and their earlier versions,
  /// labels, results, and all checkpoints, those of its agents too, byte for byte. A file of that name is refused with
  /// `WAYMARK_EXISTS`.
  ///
  /// `logs/` and `damaged/` are not the store's, and stay. Nothing of the file is to be seen before it is whole and durable.
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
        let to = Archive {
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

  /// Brings in a session that `exportSession()` wrote, on this backend or another, as one step. A session that exists is
  /// refused with `WAYMARK_EXISTS`; `as` gives the new one another id.
  ///
  /// All of the file is checked before anything of it is to be seen: one that is not whole is refused with `WAYMARK_CORRUPT`.
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
        let from = Archive {
          file: user_files::open(&path)?,
          name: &path.to_string_lossy(),
        };
        store.import_session(from, new_name.as_ref(), &control)
      },
      results::imported,
    )
  }
}
