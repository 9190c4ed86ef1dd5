use super::*;

#[test]
fn count_agrees_with_members_and_items() {
  let texts = [
    "{}",
    "[]",
    r#"{"a":1}"#,
    r#"[[],{},"",null]"#,
    r#"{"a,b":{"c":[1,2,{"d":3}],"e":4},"\"":"\\","x\"{,":"},{","y":[",",",\\\""]}"#,
  ];
  for text in texts {
    let read = match text.as_bytes()[0] {
      b'{' => members(text).unwrap().len(),
      _ => items(text).unwrap().len(),
    };
    assert_eq!(count(text), read, "{text}");
  }
  // Invalid JSON has no right answer, but must not panic.
  for text in ["", "}", "\"", "{\"\\", "]]]]", ",,,"] {
    let _ = count(text);
  }
}

#[test]
fn members_are_found_with_their_text_unchanged() {
  let text = r#" { "a" : 1 , "b\u0063":{"x":[1,{}]},"d":"}\",{" } "#;
  let found = members(text).unwrap();
  let texts: Vec<_> = found.iter().map(|m| (m.raw_key, m.value)).collect();
  assert_eq!(
    texts,
    [("a", "1"), (r"b\u0063", r#"{"x":[1,{}]}"#), ("d", r#""}\",{""#)]
  );
  assert_eq!(&text[found[2].start..=found[2].start + 2], "\"d\"");
  assert_eq!(find(&found, "bc").unwrap().value, r#"{"x":[1,{}]}"#);
  assert!(find(&found, "x").is_none());
  assert!(members("{}").unwrap().is_empty());
}

#[test]
fn find_gives_the_last_of_two_members_with_one_name() {
  let found = members(r#"{"a":1,"a":2}"#).unwrap();
  assert_eq!(find(&found, "a").unwrap().value, "2");
}

#[test]
fn validate_agrees_with_a_json_parser() {
  let texts = [
    "0",
    "-0",
    "-0.0e+1",
    "1e5",
    "12.5E-3",
    "01",
    "1.",
    ".5",
    "-",
    "+1",
    "1e",
    "1e+",
    "0x1",
    "NaN",
    "Infinity",
    "true",
    "tru",
    "truex",
    "false",
    "null",
    "nul",
    "\"\"",
    "\"a\\n\\u00e9\"",
    "\"\\x\"",
    "\"\\u12g4\"",
    "\"a\nb\"",
    "\"open",
    "\"\\",
    "[]",
    "[ ]",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1",
    "]",
    "{}",
    "{ }",
    "{\"a\":1}",
    "{\"a\":1,}",
    "{\"a\"}",
    "{\"a\":}",
    "{a:1}",
    "{1:2}",
    "{\"a\":1",
    "{\"a\":1]",
    "[1}",
    "",
    " ",
    "1 1",
    "[[[]]]",
    "[{\"a\":[]}]",
    "{\"a\":{\"b\":[1,2,{\"c\":null}]}}",
    "\u{feff}1",
    "\"\u{7f}\"",
    "\"\u{2028}\"",
    "{\"a\":1}{",
    "[1]x",
  ];
  for text in texts {
    let expected = serde_json::from_str::<serde_json::Value>(text).is_ok();
    assert_eq!(validate(text).is_ok(), expected, "{text:?}");
  }
}

#[test]
fn deep_nesting_needs_no_stack() {
  let deep = "[".repeat(5_000_000) + &"]".repeat(5_000_000);
  assert_eq!(validate(&deep), Ok(()));
  let open = "{\"a\":".repeat(1_000_000);
  assert!(validate(&open).is_err());
}

#[test]
fn unescape_decodes_escapes() {
  assert_eq!(unescape(r#"\u0073tatus\n\"\\\/"#), "status\n\"\\/");
  assert_eq!(unescape(r"\ud83d\udfe6"), "🟦");
  assert_eq!(unescape(r"\ud800x"), "\u{fffd}x");
}
