//! Errors of servers that refuse, and how soon they are reported.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::fake_server::{Authority, FakeReply, FakeServer, self_signed, self_signed_between};
use super::*;

/// The error of opening a store, and the time until it was reported.
fn refusal(url: &str, milliseconds: u64) -> (Error, Duration) {
  let begun = Instant::now();
  let backend = PostgresBackend::new(url, with_timeout(milliseconds)).unwrap();
  let error = backend.open().unwrap_err();
  let shown = format!("{error} {error:?} {:?}", error.source());
  assert!(!shown.contains("s3cret"), "{shown}");
  assert!(error.message.starts_with("Could not connect to postgres://"), "{error}");
  assert_eq!(error.code, Code::Io);
  (error, begun.elapsed())
}

fn refused_by(fake_server: &FakeServer, parameters: &str) -> (String, String) {
  let (error, _) = refusal(&fake_server.url(parameters), 2000);
  (code_of_cause(&error).unwrap().to_owned(), error.message)
}

#[test]
fn open_retries_an_unreachable_server_until_the_timeout() {
  let (error, waited) = refusal("postgres://user:s3cret@127.0.0.1:1/db", 300);
  assert_eq!(code_of_cause(&error), Some("ECONNREFUSED"));
  assert!(error.message.contains("no server listens at this address"), "{error}");
  assert!(waited < Duration::from_secs(3), "{waited:?}");
  let (error, waited) = refusal("postgres://user:s3cret@no-such-host.invalid/db", 1500);
  assert!(
    matches!(code_of_cause(&error), Some("ENOTFOUND" | "ETIMEDOUT")),
    "{error}"
  );
  assert!(waited < Duration::from_secs(5), "{waited:?}");
}

#[test]
fn open_reports_a_denied_login_without_a_retry() {
  for (answer, state, advice) in [
    (
      FakeReply::RefusedAfterPassword("28P01", "password authentication failed"),
      "28P01",
      "Check the user and the password",
    ),
    (
      FakeReply::Refused("28000", "no pg_hba.conf entry"),
      "28000",
      "pg_hba.conf",
    ),
    (
      FakeReply::Refused("3D000", "database \"db\" does not exist"),
      "3D000",
      "CREATE DATABASE",
    ),
    (
      FakeReply::Refused("42501", "permission denied for database"),
      "42501",
      "GRANT",
    ),
  ] {
    let fake_server = FakeServer::start(answer, None);
    let (error, waited) = refusal(&fake_server.url("sslmode=disable"), 5000);
    assert_eq!(code_of_cause(&error), Some(state));
    assert!(
      error.message.contains(state) && error.message.contains(advice),
      "{error}"
    );
    assert!(waited < Duration::from_secs(4), "{waited:?}");
    assert_eq!(fake_server.connections.load(Ordering::Relaxed), 1, "{state}");
  }
  let fake_server = FakeServer::start(FakeReply::RefusedAfterPassword("28P01", "no"), None);
  let without = fake_server.url("").replace(":s3cret@", "@");
  if env::var("PGPASSWORD").is_err() {
    let (error, _) = refusal(&without, 5000);
    assert!(error.message.contains("PGPASSWORD"), "{error}");
  }
}

#[test]
fn open_retries_a_server_that_accepts_no_connections_yet() {
  for (state, message, advice) in [
    ("53300", "sorry, too many clients already", "maxConnections"),
    ("57P03", "the database system is starting up", "starting up"),
  ] {
    let fake_server = FakeServer::start(FakeReply::Refused(state, message), None);
    let (error, waited) = refusal(&fake_server.url(""), 1000);
    assert_eq!(code_of_cause(&error), Some(state));
    assert!(error.message.contains(advice), "{error}");
    assert!(fake_server.connections.load(Ordering::Relaxed) > 2, "{state}");
    assert!(waited < Duration::from_secs(4), "{waited:?}");
  }
}

#[test]
fn a_server_without_tls_is_rejected_only_if_sslmode_requires_tls() {
  let fake_server = FakeServer::start(FakeReply::Refused("3D000", "no database"), None);
  for mode in ["require", "verify-ca", "verify-full"] {
    let (name, message) = refused_by(&fake_server, &format!("sslmode={mode}"));
    assert_eq!(name, "TLS_FAILED");
    assert!(message.contains("no TLS, and sslmode requires it"), "{message}");
  }
  for mode in ["disable", "prefer"] {
    assert_eq!(refused_by(&fake_server, &format!("sslmode={mode}")).0, "3D000");
  }
}

#[test]
fn certificates_are_verified_as_sslmode_says() {
  // The answer to a login: the certificate was accepted.
  const ACCEPTED: &str = "3D000";
  const REJECTED: &str = "CERTIFICATE_NOT_TRUSTED";
  let directory = tempfile::tempdir().unwrap();
  let file = |name: &str, text: &str| {
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    format!("&sslrootcert={}", path.display())
  };
  let (authority, other_authority) = (Authority::new(), Authority::new());
  let (self_signed_config, own_certificate) = self_signed("127.0.0.1");
  let answer = FakeReply::Refused(ACCEPTED, "no database");
  let matching = FakeServer::start(answer, Some(authority.server_for("127.0.0.1")));
  let other_host = FakeServer::start(answer, Some(authority.server_for("db.example")));
  let self_signed_server = FakeServer::start(answer, Some(self_signed_config));
  let (known, unknown) = (
    file("ca.pem", &authority.pem()),
    file("other.pem", &other_authority.pem()),
  );
  let own = file("own.pem", &own_certificate);
  for (server, parameters, expected) in [
    (&matching, "sslmode=require", ACCEPTED),
    (&matching, "sslmode=prefer", ACCEPTED),
    (&matching, "sslmode=verify-ca", REJECTED),
    (&matching, &format!("sslmode=require{unknown}"), REJECTED),
    (&matching, &format!("sslmode=verify-ca{known}"), ACCEPTED),
    (&matching, &format!("sslmode=verify-full{known}"), ACCEPTED),
    (&matching, &format!("sslmode=verify-full{unknown}"), REJECTED),
    (&other_host, &format!("sslmode=verify-ca{known}"), ACCEPTED),
    (&other_host, &format!("sslmode=verify-full{known}"), REJECTED),
    (&self_signed_server, &format!("sslmode=verify-full{own}"), ACCEPTED),
    (&self_signed_server, &format!("sslmode=verify-full{known}"), REJECTED),
  ] {
    assert_eq!(refused_by(server, parameters).0, expected, "{parameters}");
  }
  let (name, message) = refused_by(&matching, "sslmode=verify-full&sslrootcert=/no/such/file.pem");
  assert_eq!(name, "CERTIFICATES_UNREADABLE");
  assert!(message.contains("/no/such/file.pem"), "{message}");
  let empty = file("empty.pem", "nothing");
  assert_eq!(
    refused_by(&matching, &format!("sslmode=verify-ca{empty}")).0,
    "CERTIFICATES_UNREADABLE"
  );
}

#[test]
fn a_certificate_outside_its_validity_is_rejected_even_if_it_is_in_sslrootcert() {
  let directory = tempfile::tempdir().unwrap();
  for is_authority in [false, true] {
    for (years, expected) in [
      ((2000, 2020), "CERTIFICATE_NOT_TRUSTED"),
      ((4000, 4001), "CERTIFICATE_NOT_TRUSTED"),
      ((4000, 2020), "CERTIFICATE_NOT_TRUSTED"),
      ((2000, 4000), "3D000"),
    ] {
      let (server, pem) = self_signed_between("127.0.0.1", years, is_authority);
      let server = FakeServer::start(FakeReply::Refused("3D000", "no database"), Some(server));
      let path = directory.path().join("own.pem");
      fs::write(&path, pem).unwrap();
      for mode in ["require", "verify-ca", "verify-full"] {
        let parameters = format!("sslmode={mode}&sslrootcert={}", path.display());
        let (name, message) = refused_by(&server, &parameters);
        assert_eq!(name, expected, "{mode}, {years:?}, {is_authority}: {message}");
      }
    }
  }
}

#[test]
fn a_write_to_a_read_only_server_is_reported_with_advice() {
  let Some((schema, _backend)) = backend() else { return };
  let url = with_parameter(&schema.url(), "options=-c%20default_transaction_read_only%3Don");
  let backend = PostgresBackend::new(&url, Settings::default()).unwrap();
  backend.open().unwrap();
  let error = backend.put(&session("s"), Item::SESSION, b"{}").unwrap_err();
  assert_eq!((error.code, code_of_cause(&error)), (Code::Io, Some("25006")));
  assert!(error.message.contains("target_session_attrs=read-write"), "{error}");
  assert!(backend.all_sessions().unwrap().is_empty());
}

#[test]
fn permanent_errors_are_reported_with_their_sqlstate_after_one_attempt() {
  let Some((_schema, backend)) = backend() else { return };
  for (state, advice) in [
    ("53100", "disk of the server is full"),
    ("53200", "out of memory"),
    ("57014", "statement_timeout"),
    ("22P05", "because"),
  ] {
    let sql = format!("DO $$ BEGIN RAISE EXCEPTION 'because' USING ERRCODE = '{state}'; END $$");
    let mut attempts = 0;
    let error = backend.with_connection("write", &|| "it".to_owned(), async |connection| {
      attempts += 1;
      connection.batch(&sql).await
    });
    let error = error.unwrap_err();
    assert_eq!(
      (error.code, code_of_cause(&error), attempts),
      (Code::Io, Some(state), 1)
    );
    assert!(
      error
        .message
        .starts_with(&format!("Could not write it: {state}: because")),
      "{error}"
    );
    assert!(error.message.contains(advice), "{error}");
  }
}

#[test]
fn serialization_failures_and_deadlocks_are_retried() {
  let Some((_schema, backend)) = backend() else { return };
  for state in ["40001", "40P01"] {
    let mut attempts = 0;
    let done = backend.with_connection("write", &|| "it".to_owned(), async |connection| {
      attempts += 1;
      let state = if attempts < 3 { state } else { "00000" };
      let sql = format!(
        "DO $$ BEGIN IF '{state}' <> '00000' THEN RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END IF; END $$"
      );
      connection.batch(&sql).await
    });
    assert_eq!((done.map_err(|error| error.message), attempts), (Ok(()), 3));
  }
}

#[test]
fn transactions_set_their_durability_and_connections_do_not_keep_it() {
  let Some(schema) = Schema::new() else { return };
  for (server, durability, expected) in [
    ("off", Durability::Full, "on"),
    ("on", Durability::Full, "on"),
    ("remote_write", Durability::Full, "remote_write"),
    ("on", Durability::Relaxed, "off"),
    ("remote_write", Durability::Relaxed, "off"),
  ] {
    let url = with_parameter(&schema.url(), &format!("options=-c%20synchronous_commit%3D{server}"));
    let settings = Settings {
      max_connections: 1,
      ..Settings::from(durability)
    };
    let backend = PostgresBackend::new(&url, settings).unwrap();
    backend.open().unwrap();
    let setting = "SELECT current_setting('synchronous_commit')";
    let text = |rows: &[tokio_postgres::Row]| rows[0].get::<_, String>(0);
    let single = backend.with_connection("read", &String::new, async |connection| {
      connection.execute(setting, &[]).await
    });
    assert_eq!(text(&single.unwrap()), expected, "{server}: one statement");
    let several = backend.with_connection("read", &String::new, async |connection| {
      connection.execute_together(&[(setting, &[]), (setting, &[])]).await
    });
    assert_eq!(text(&several.unwrap()[1]), expected, "{server}: several statements");
    let long = backend.with_connection("read", &String::new, async |connection| {
      connection.begin().await?;
      let rows = connection.query(setting, &[]).await?;
      connection.commit().await?;
      Ok(rows)
    });
    assert_eq!(text(&long.unwrap()), expected, "{server}: a long transaction");
    backend.put(&session("s"), Item::SESSION, b"{}").unwrap();
    let after = backend.with_connection("read", &String::new, async |connection| {
      connection.query(setting, &[]).await
    });
    assert_eq!(
      text(&after.unwrap()),
      server,
      "the setting must end with its transaction"
    );
  }
}
