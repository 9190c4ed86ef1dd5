use super::*;

fn of(text: &str) -> String {
  canonical(text).unwrap().into_owned()
}

#[test]
fn numbers_are_written_as_ecmascript_writes_them() {
  for (literal, expected) in [
    ("0", "0"),
    ("-0", "0"),
    ("-0.0e7", "0"),
    ("-1", "-1"),
    ("1.0", "1"),
    ("1E5", "100000"),
    ("100000000000000000000000", "1e+23"),
    ("123456789012345680000", "123456789012345680000"),
    ("9007199254740993", "9007199254740992"),
    ("999999999999999", "999999999999999"),
    ("-99999999999999", "-99999999999999"),
    ("0.000001", "0.000001"),
    ("0.0000001", "1e-7"),
    ("5e-324", "5e-324"),
    ("2e-324", "0"),
    ("1.7976931348623157e308", "1.7976931348623157e+308"),
    ("1e400", "null"),
    ("-1e400", "null"),
  ] {
    assert_eq!(of(literal), expected, "{literal}");
    assert_eq!(of(&format!("[{literal}]")), format!("[{expected}]"), "{literal}");
  }
}

#[test]
fn strings_have_the_shortest_escapes_and_lone_surrogates_are_escaped() {
  for (literal, expected) in [
    (
      r#""\u0000\u001F\u0008\u0009\u000a\u000C\u000D""#,
      r#""\u0000\u001f\b\t\n\f\r""#,
    ),
    (r#""\/\u002f\u0022\u005C\"\\""#, r#""//\"\\\"\\""#),
    (r#""\u2028\u00e9\u007F""#, "\"\u{2028}é\u{7f}\""),
    (r#""\uD83D\uDFE6""#, "\"🟦\""),
    (r#""\uD83D\\uDFE6""#, r#""\ud83d\\uDFE6""#),
    (r#""\uDFE6\uD83D\uD83D\uDFE6\uD800""#, r#""\udfe6\ud83d🟦\ud800""#),
    (r#""\ud83d🟦""#, r#""\ud83d🟦""#),
  ] {
    assert_eq!(of(literal), expected, "{literal}");
    assert_eq!(of(&format!("{{{literal}:0}}")), format!("{{{expected}:0}}"));
  }
}

#[test]
fn members_are_in_the_order_of_javascript() {
  for (text, expected) in [
    (r#"{"b":1,"a":2,"b":3}"#, r#"{"b":3,"a":2}"#),
    (r#"{"b":1,"\u0062":3}"#, r#"{"b":3}"#),
    (
      r#"{"b":0,"10":1,"9":2,"a":3,"0":4}"#,
      r#"{"0":4,"9":2,"10":1,"b":0,"a":3}"#,
    ),
    (r#"{"1":0,"2":1,"1":2}"#, r#"{"1":2,"2":1}"#),
    (
      r#"{"a":0,"01":1,"-1":2,"1.0":3,"":4}"#,
      r#"{"a":0,"01":1,"-1":2,"1.0":3,"":4}"#,
    ),
    (
      r#"{"4294967295":0,"4294967294":1,"4294967296":2}"#,
      r#"{"4294967294":1,"4294967295":0,"4294967296":2}"#,
    ),
    (r#"{"a":0,"__proto__":{"x":1}}"#, r#"{"a":0,"__proto__":{"x":1}}"#),
    (
      r#"{"a":{"1":[{"c":1.0}],"0":2}, "b":[{"d":1}]}"#,
      r#"{"a":{"0":2,"1":[{"c":1}]},"b":[{"d":1}]}"#,
    ),
  ] {
    assert_eq!(of(text), expected, "{text}");
  }
  let many = |last: &str| {
    let members = (0..40).map(|n| format!("\"k{n}\":{n}")).chain([last.to_owned()]);
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
  };
  assert_eq!(of(&many("\"k40\":40")), many("\"k40\":40"));
  assert_eq!(
    of(&many("\"k0\":9")),
    many("\"k40\":40")
      .replace("\"k0\":0", "\"k0\":9")
      .replace(",\"k40\":40", "")
  );
}

#[test]
fn canonical_text_is_returned_without_copying() {
  for text in [
    "1",
    "null",
    "{}",
    "[]",
    r#"{"0":[1,"\n",{"é":-1.5e-7}],"b":{},"c":[true,false,null]}"#,
  ] {
    for text in [text.to_owned(), format!(" {text}\n")] {
      assert!(
        matches!(canonical(&text), Ok(Cow::Borrowed(same)) if same == text.trim()),
        "{text}"
      );
    }
  }
  for text in [
    "[ ]",
    "{ }",
    "[[ ]]",
    "[1 ]",
    "[ 1]",
    "[1,\n2]",
    "{\"a\" :1}",
    "{\"a\": 1}",
    "{ \"a\":1}",
  ] {
    let compact: String = text.split_whitespace().collect();
    assert_eq!(of(text), compact, "{text}");
  }
}

#[test]
fn deep_nesting_needs_no_stack() {
  let nested = |open: &str, close: &str| open.repeat(1_000_000) + "1" + &close.repeat(1_000_000);
  assert_eq!(of(&nested("[", "]")), nested("[", "]"));
  assert_eq!(of(&nested("[ ", "]")), nested("[", "]"));
  assert_eq!(of(&nested(r#"{"b":0,"1":"#, "}")), nested(r#"{"1":"#, r#","b":0}"#));
}

#[test]
fn invalid_json_is_an_error_at_its_position() {
  for (text, at) in [
    ("", 0),
    ("[1,]", 3),
    ("{\"a\":}", 5),
    ("[1}", 2),
    ("tru", 1),
    ("1 2", 2),
    ("{1:2}", 1),
  ] {
    assert_eq!(canonical(text), Err(SyntaxError { at }), "{text}");
  }
}
