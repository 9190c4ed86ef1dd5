//! Parsing of URLs, and the secrecy of passwords.

use super::*;
use crate::backend::open;

const TIMEOUT: Duration = Duration::from_secs(10);

fn target(url: &str) -> PgConfig {
  PgConfig::parse(url, TIMEOUT).unwrap()
}

#[test]
fn parse_passes_all_parts_of_a_url_to_the_client() {
  let url = "postgresql://us%40er:p%2Fa%3As%40s@[::1]:6543/my%20db?schema=Mine_1&connect_timeout=7&sslmode=disable";
  let target = target(url);
  assert_eq!(target.client.get_user(), Some("us@er"));
  assert_eq!(target.client.get_password(), Some(&b"p/a:s@s"[..]));
  assert_eq!(target.client.get_dbname(), Some("my db"));
  assert_eq!(target.client.get_ports(), [6543]);
  assert_eq!(target.client.get_connect_timeout(), Some(&Duration::from_secs(7)));
  assert_eq!(target.client.get_application_name(), Some("waymark"));
  assert_eq!(target.schema, "Mine_1");
  assert_eq!(target.location(), "postgres://us%40er@[::1]:6543/my%20db?schema=Mine_1");
}

#[test]
fn parse_uses_the_defaults_of_other_clients() {
  let plain = target("postgres://me@host");
  assert_eq!(plain.location(), "postgres://me@host:5432/me?schema=waymark");
  assert_eq!(plain.client.get_connect_timeout(), Some(&(TIMEOUT / 2)));
  assert_eq!(plain.client.get_keepalives_idle(), Duration::from_secs(30));
  let several = target("postgres://me@a,b:1/db?target_session_attrs=read-write&keepalives_idle=9");
  assert_eq!(several.location(), "postgres://me@a:5432,b:1/db?schema=waymark");
  assert_eq!(several.client.get_keepalives_idle(), Duration::from_secs(9));
  let on_two_hosts = target("postgres:///db?host=a,b&user=me");
  assert_eq!(on_two_hosts.location(), "postgres://me@a:5432,b:5432/db?schema=waymark");
  let elsewhere = target("postgres:///db?host=/var/run/postgresql&user=me&port=5433&password=secret");
  assert_eq!(
    elsewhere.location(),
    "postgres://me@%2Fvar%2Frun%2Fpostgresql:5433/db?schema=waymark"
  );
}

#[test]
fn parse_reads_sslmode_as_libpq_does() {
  use tls::Trust;
  for (parameters, trust, is_optional) in [
    ("", Trust::AnyCertificate, true),
    ("?sslmode=disable", Trust::NoTls, false),
    ("?sslmode=prefer", Trust::AnyCertificate, true),
    ("?sslmode=require", Trust::AnyCertificate, false),
    ("?sslmode=require&sslrootcert=ca.pem", Trust::VerifyCa, false),
    ("?sslmode=verify-ca", Trust::VerifyCa, false),
    ("?sslmode=verify-full&sslrootcert=system", Trust::VerifyFull, false),
  ] {
    let tls = target(&format!("postgres://host/db{parameters}")).tls;
    assert_eq!((tls.trust, tls.is_optional), (trust, is_optional), "{parameters}");
  }
}

#[test]
fn parse_rejects_invalid_urls_without_a_part_of_the_password() {
  for (url, why) in [
    ("postgres:", "postgres://"),
    ("postgres:user:s3cret@host/db", "postgres://"),
    ("postgres:/user:s3cret@host/db", "postgres://"),
    (" postgres://user:s3cret@host/db", "postgres://"),
    ("postgres://", "no host"),
    ("postgres://user:s3cret@/db", "no host"),
    ("postgres://user:s3cret@:5432/db", "no host"),
    ("postgres://user:s3cret@host:port/db", "port"),
    ("postgres://user:s3cret@host:0/db", "port"),
    ("postgres://user:s3cret@host:70000/db", "port"),
    ("postgres://user:s3cret@[::1]5432/db", "port"),
    ("postgres://user:s3cret@[::1/db", "bracket"),
    ("postgres://user:s3cret/db", "port"),
    ("postgres://user:s3cret", "port"),
    ("postgres://user:@s3cret@host/db", "%40"),
    ("postgres://user:a/s3cret@host/db", "%2F"),
    ("postgres://user:a?s3cret=b@host/db", "%3F"),
    ("postgres://user:a#s3cret@host/db", "%23"),
    ("postgres://user:a#s3cret", "%23"),
    ("postgres://user:%s3cret@host/db", "digits"),
    ("postgres://user:s3cret%@host/db", "digits"),
    ("postgres://user:s3cret%00@host/db", "digits"),
    ("postgres://user:s3cret%ff@host/db", "UTF-8"),
    ("postgres://user:s3cret@host/db?schema=a-b", "schema"),
    ("postgres://user:s3cret@host/db?schema=", "schema"),
    ("postgres://user:s3cret@host/db?schema=1a", "schema"),
    ("postgres://user:s3cret@host/db?schema=pg_x", "schema"),
    ("postgres://user:s3cret@host/db?schema=pg_catalog", "schema of its own"),
    ("postgres://user:s3cret@host/db?schema=pg_toast", "schema of its own"),
    ("postgres://user:s3cret@host/db?schema=PG_catalog", "schema of its own"),
    (
      "postgres://user:s3cret@host/db?schema=information_schema",
      "schema of its own",
    ),
    (
      "postgres://user:s3cret@host/db?schema=Information_Schema",
      "schema of its own",
    ),
    ("postgres://user:s3cret@host/db?schema=a%22b", "schema"),
    ("postgres://user:s3cret@host/db?sslmode=s3cret", "sslmode"),
    ("postgres://user:s3cret@host/db?sslcert=s3cret", "\"sslcert\""),
    ("postgres://user:s3cret@host/db?pgbouncer=true", "\"pgbouncer\""),
    ("postgres://user@host/db?password=s3cret&port=s3cret", "the port"),
    ("postgres://user@host/db?port=0", "the port"),
    ("postgres://user@host/db?PASSWORD=s3cret", "lower case"),
    ("postgres://user:s3cret@host/db?host=other", "twice"),
    (
      "postgres://user:s3cret@host/db?keepalives_idle=soon",
      "\"keepalives_idle\"",
    ),
    ("POSTGRES:user:s3cret@host", "postgres://"),
    ("postgres://user%3As3cret%40host/db", "separately"),
    ("postgres://host%3As3cret/db", "separately"),
    ("postgres://user%3As3cret@host/db", "%3A"),
    ("postgres://host/db?user=user:s3cret", "%3A"),
    ("postgres://host/db&password=s3cret", "? is missing"),
    ("postgres://host/db;password=s3cret", "? is missing"),
    ("postgres://host/user=me%20password=s3cret", "? is missing"),
  ] {
    let error = open(url, Settings::default())
      .map(|backend| backend.location())
      .unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument, "{url}");
    let shown = format!("{error} {error:?}");
    assert!(error.message.starts_with("baseDir "), "{url}: {error}");
    assert!(error.message.contains(why), "{url}: {error}");
    assert!(!shown.contains("s3cret") && !shown.contains("cret"), "{url}: {shown}");
  }
  let long = format!("postgres://host/db?schema={}", "a".repeat(64));
  assert!(open(&long, Settings::default()).is_err());
}

#[test]
fn neither_names_nor_debug_output_contain_the_password() {
  for url in [
    "postgres://user:s3cret@host/db",
    "postgres://user:s%33cret@host/db",
    "postgres://user@host/db?password=s3cret",
    "postgres://user@host/db?options=-c%20x.y=s3cret",
  ] {
    let backend = PostgresBackend::new(url, Settings::default()).unwrap();
    let name = backend.name_of(&session("s"), Item::SESSION);
    let shown = format!("{backend:?} {:#?} {} {name}", backend, backend.location());
    assert!(!shown.contains("s3cret") && !shown.contains("s%33cret"), "{shown}");
  }
}
