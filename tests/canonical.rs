//! Compares canonical JSON with what V8 writes, for a million numbers and a hundred thousand generated values.

#![allow(
  clippy::unwrap_used,
  clippy::print_stdout,
  reason = "a test may panic, and prints its figures"
)]

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use waymark::json::canonical::canonical;

const NUMBERS: usize = 1_000_000;
const VALUES: usize = 100_000;

/// The environment variable that sets the seed, to repeat a run.
const SEED: &str = "WAYMARK_CANONICAL_SEED";

#[test]
fn canonical_json_is_what_v8_writes() {
  let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
  let seed = env::var(SEED).unwrap_or_else(|_| now.subsec_nanos().to_string());
  println!("{SEED}={seed}");
  let mut node = Command::new("node")
    .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/canonical_values.mjs"))
    .args([&seed, &NUMBERS.to_string(), &VALUES.to_string()])
    .stdout(Stdio::piped())
    .spawn()
    .expect("node runs");
  let mut output = BufReader::new(node.stdout.take().unwrap());
  let (mut text, mut expected) = (Vec::new(), Vec::new());
  let (mut compared, mut unchanged) = (0, 0);
  while output.read_until(0, &mut text).unwrap() > 0 {
    output.read_until(0, &mut expected).unwrap();
    let strings = [&text, &expected].map(|bytes| str::from_utf8(bytes.strip_suffix(b"\0").unwrap()).unwrap());
    let [text_read, expected_read] = strings;
    let written = canonical(text_read);
    assert_eq!(
      written.as_deref(),
      Ok(expected_read),
      "of {text_read} with {SEED}={seed}"
    );
    assert_eq!(
      canonical(expected_read).as_deref(),
      Ok(expected_read),
      "of canonical text with {SEED}={seed}"
    );
    compared += 1;
    unchanged += usize::from(text_read == expected_read);
    text.clear();
    expected.clear();
  }
  assert!(node.wait().unwrap().success());
  println!("{compared} texts, {unchanged} of them canonical");
  assert_eq!(compared, NUMBERS + VALUES);
  assert!(
    unchanged > 0 && unchanged < compared / 2,
    "{unchanged} of {compared} were canonical"
  );
}
