//! What is refused, in which words, and how soon.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::pretender::{Authority, FakeReply, Pretender, self_signed, self_signed_between};
use super::*;

/// What opening a store says, and how long it took to find out.
fn refusal(url: &str, milliseconds: u64) -> (Error, Duration) {
  let begun = Instant::now();
  let backend = PostgresBackend::new(url, hurried(milliseconds)).unwrap();
  let error = backend.open().unwrap_err();
  let shown = format!("{error} {error:?} {:?}", error.source());
  assert!(!shown.contains("s3cret"), "{shown}");
  assert!(error.message.starts_with("Could not connect to postgres://"), "{error}");
  assert_eq!(error.code, Code::Io);
  (error, begun.elapsed())
}

fn refused_by(pretender: &Pretender, parameters: &str) -> (String, String) {
  let (error, _) = refusal(&pretender.url(parameters), 2000);
  (name_of_cause(&error).unwrap().to_owned(), error.message)
}

#[test]
fn a_server_that_nobody_reaches_is_tried_until_the_time_is_up() {
  let (error, waited) = refusal("postgres://user:s3cret@127.0.0.1:1/db", 300);
  assert_eq!(name_of_cause(&error), Some("ECONNREFUSED"));
  assert!(error.message.contains("nobody listens there"), "{error}");
  assert!(waited < Duration::from_secs(3), "{waited:?}");
  let (error, waited) = refusal("postgres://user:s3cret@no-such-host.invalid/db", 1500);
  assert!(
    matches!(name_of_cause(&error), Some("ENOTFOUND" | "ETIMEDOUT")),
    "{error}"
  );
  assert!(waited < Duration::from_secs(5), "{waited:?}");
}

#[test]
fn who_is_not_let_in_is_told_at_once() {
  for (answer, state, advice) in [
    (
      FakeReply::AfterPassword("28P01", "password authentication failed"),
      "28P01",
      "Check the user and the password",
    ),
    (
      FakeReply::DbError("28000", "no pg_hba.conf entry"),
      "28000",
      "pg_hba.conf",
    ),
    (
      FakeReply::DbError("3D000", "database \"db\" does not exist"),
      "3D000",
      "CREATE DATABASE",
    ),
    (
      FakeReply::DbError("42501", "permission denied for database"),
      "42501",
      "GRANT",
    ),
  ] {
    let pretender = Pretender::start(answer, None);
    let (error, waited) = refusal(&pretender.url("sslmode=disable"), 5000);
    assert_eq!(name_of_cause(&error), Some(state));
    assert!(
      error.message.contains(state) && error.message.contains(advice),
      "{error}"
    );
    assert!(waited < Duration::from_secs(4), "{waited:?}");
    assert_eq!(pretender.visitors.load(Ordering::Relaxed), 1, "{state}");
  }
  let pretender = Pretender::start(FakeReply::AfterPassword("28P01", "no"), None);
  let without = pretender.url("").replace(":s3cret@", "@");
  if env::var("PGPASSWORD").is_err() {
    let (error, _) = refusal(&without, 5000);
    assert!(error.message.contains("PGPASSWORD"), "{error}");
  }
}

#[test]
fn a_server_that_has_no_room_yet_is_tried_again() {
  for (state, sentence, advice) in [
    ("53300", "sorry, too many clients already", "maxConnections"),
    ("57P03", "the database system is starting up", "starting up"),
  ] {
    let pretender = Pretender::start(FakeReply::DbError(state, sentence), None);
    let (error, waited) = refusal(&pretender.url(""), 1000);
    assert_eq!(name_of_cause(&error), Some(state));
    assert!(error.message.contains(advice), "{error}");
    assert!(pretender.visitors.load(Ordering::Relaxed) > 2, "{state}");
    assert!(waited < Duration::from_secs(4), "{waited:?}");
  }
}

#[test]
fn a_server_without_tls_is_refused_only_by_those_who_demand_it() {
  let pretender = Pretender::start(FakeReply::DbError("3D000", "no database"), None);
  for mode in ["require", "verify-ca", "verify-full"] {
    let (name, message) = refused_by(&pretender, &format!("sslmode={mode}"));
    assert_eq!(name, "TLS_FAILED");
    assert!(message.contains("no TLS, and sslmode demands it"), "{message}");
  }
  for mode in ["disable", "prefer"] {
    assert_eq!(refused_by(&pretender, &format!("sslmode={mode}")).0, "3D000");
  }
}

#[test]
fn a_certificate_is_looked_at_as_far_as_was_asked() {
  // Whoever is told this has believed the server.
  const IN: &str = "3D000";
  const OUT: &str = "CERTIFICATE_NOT_TRUSTED";
  let directory = tempfile::tempdir().unwrap();
  let file = |name: &str, text: &str| {
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    format!("&sslrootcert={}", path.display())
  };
  let (authority, stranger) = (Authority::new(), Authority::new());
  let (of_itself, own_certificate) = self_signed("127.0.0.1");
  let answer = FakeReply::DbError(IN, "no database");
  let here = Pretender::start(answer, Some(authority.server_for("127.0.0.1")));
  let elsewhere = Pretender::start(answer, Some(authority.server_for("db.example")));
  let of_itself = Pretender::start(answer, Some(of_itself));
  let (known, unknown) = (file("ca.pem", &authority.pem()), file("other.pem", &stranger.pem()));
  let own = file("own.pem", &own_certificate);
  for (server, parameters, expected) in [
    (&here, "sslmode=require", IN),
    (&here, "sslmode=prefer", IN),
    (&here, "sslmode=verify-ca", OUT),
    (&here, &format!("sslmode=require{unknown}"), OUT),
    (&here, &format!("sslmode=verify-ca{known}"), IN),
    (&here, &format!("sslmode=verify-full{known}"), IN),
    (&here, &format!("sslmode=verify-full{unknown}"), OUT),
    (&elsewhere, &format!("sslmode=verify-ca{known}"), IN),
    (&elsewhere, &format!("sslmode=verify-full{known}"), OUT),
    (&of_itself, &format!("sslmode=verify-full{own}"), IN),
    (&of_itself, &format!("sslmode=verify-full{known}"), OUT),
  ] {
    assert_eq!(refused_by(server, parameters).0, expected, "{parameters}");
  }
  let (name, message) = refused_by(&here, "sslmode=verify-full&sslrootcert=/no/such/file.pem");
  assert_eq!(name, "CERTIFICATES_UNREADABLE");
  assert!(message.contains("/no/such/file.pem"), "{message}");
  let empty = file("empty.pem", "nothing");
  assert_eq!(
    refused_by(&here, &format!("sslmode=verify-ca{empty}")).0,
    "CERTIFICATES_UNREADABLE"
  );
}

#[test]
fn a_certificate_that_is_not_valid_now_is_refused_even_if_it_is_the_one_that_was_given() {
  let directory = tempfile::tempdir().unwrap();
  for is_authority in [false, true] {
    for (years, expected) in [
      ((2000, 2020), "CERTIFICATE_NOT_TRUSTED"),
      ((4000, 4001), "CERTIFICATE_NOT_TRUSTED"),
      ((4000, 2020), "CERTIFICATE_NOT_TRUSTED"),
      ((2000, 4000), "3D000"),
    ] {
      let (server, pem) = self_signed_between("127.0.0.1", years, is_authority);
      let server = Pretender::start(FakeReply::DbError("3D000", "no database"), Some(server));
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
fn a_server_that_only_reads_is_named_as_such() {
  let Some((schema, _backend)) = backend() else { return };
  let url = with_parameter(&schema.url(), "options=-c%20default_transaction_read_only%3Don");
  let backend = PostgresBackend::new(&url, Settings::default()).unwrap();
  backend.open().unwrap();
  let error = backend.put(&session("s"), Item::SESSION, b"{}").unwrap_err();
  assert_eq!((error.code, name_of_cause(&error)), (Code::Io, Some("25006")));
  assert!(error.message.contains("target_session_attrs=read-write"), "{error}");
  assert!(backend.all_sessions().unwrap().is_empty());
}

#[test]
fn what_a_statement_is_refused_for_is_named_and_not_tried_again() {
  let Some((_schema, backend)) = backend() else { return };
  for (state, advice) in [
    ("53100", "disk of the server is full"),
    ("53200", "out of memory"),
    ("57014", "statement_timeout"),
    ("22P05", "because"),
  ] {
    let sql = format!("DO $$ BEGIN RAISE EXCEPTION 'because' USING ERRCODE = '{state}'; END $$");
    let mut attempts = 0;
    let error = backend.ask("write", &|| "it".to_owned(), async |connection| {
      attempts += 1;
      connection.run(&sql).await
    });
    let error = error.unwrap_err();
    assert_eq!(
      (error.code, name_of_cause(&error), attempts),
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
fn a_conflict_is_tried_again_until_it_is_over() {
  let Some((_schema, backend)) = backend() else { return };
  for state in ["40001", "40P01"] {
    let mut attempts = 0;
    let done = backend.ask("write", &|| "it".to_owned(), async |connection| {
      attempts += 1;
      let state = if attempts < 3 { state } else { "00000" };
      let sql = format!(
        "DO $$ BEGIN IF '{state}' <> '00000' THEN RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END IF; END $$"
      );
      connection.run(&sql).await
    });
    assert_eq!((done.map_err(|error| error.message), attempts), (Ok(()), 3));
  }
}

#[test]
fn durability_is_what_was_asked_for_whatever_the_server_says_and_no_connection_keeps_it() {
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
    let ask = "SELECT current_setting('synchronous_commit')";
    let text = |rows: &[tokio_postgres::Row]| rows[0].get::<_, String>(0);
    let one = backend.ask("ask", &String::new, async |connection| {
      connection.change(ask, &[]).await
    });
    assert_eq!(text(&one.unwrap()), expected, "{server}: one statement");
    let several = backend.ask("ask", &String::new, async |connection| {
      connection.change_together(&[(ask, &[]), (ask, &[])]).await
    });
    assert_eq!(text(&several.unwrap()[1]), expected, "{server}: several statements");
    let long = backend.ask("ask", &String::new, async |connection| {
      connection.begin().await?;
      let rows = connection.query(ask, &[]).await?;
      connection.commit().await?;
      Ok(rows)
    });
    assert_eq!(text(&long.unwrap()), expected, "{server}: a long transaction");
    backend.put(&session("s"), Item::SESSION, b"{}").unwrap();
    let after = backend.ask("ask", &String::new, async |connection| connection.query(ask, &[]).await);
    assert_eq!(
      text(&after.unwrap()),
      server,
      "the connection may be that of another client next"
    );
  }
}
