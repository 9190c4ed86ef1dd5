//! Each layer uses only the layers that it may use, and the JavaScript parts keep to the public API.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The layers from bottom to top, each with the layers that it may use. Tests inside a layer obey the same rules.
const LAYERS: [(&str, &[&str]); 7] = [
  ("types", &[]),
  ("codec", &["types"]),
  ("json", &["types"]),
  ("backend", &["codec", "types"]),
  ("checkpoint", &["json", "types"]),
  ("store", &["checkpoint", "backend", "json", "codec", "types"]),
  ("api", &["store", "checkpoint", "types"]),
];

#[test]
fn layers_use_only_what_is_below_them() {
  let re_exports = re_exports();
  let mut errors = Vec::new();
  for (layer, allowed) in LAYERS {
    for file in files_below(&root().join("src").join(layer), "rs") {
      let source = fs::read_to_string(&file).unwrap();
      for import in crate_paths(&source, &module_of(&file)) {
        let target = re_exports.get(&import.name).unwrap_or(&import.name);
        if target != layer && !allowed.contains(&target.as_str()) {
          errors.push(format!("{}:{}: `{layer}` uses `{target}`", shown(&file), import.line));
        }
      }
    }
  }
  assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn every_layer_is_above_those_that_it_uses() {
  let names = LAYERS.map(|(layer, _)| layer);
  for (index, (layer, allowed)) in LAYERS.iter().enumerate() {
    for used in *allowed {
      assert!(
        names[..index].contains(used),
        "`{layer}` uses `{used}`, which is not below it"
      );
    }
  }
  let top_down: Vec<_> = names.into_iter().rev().collect();
  let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
  let listed = lib.lines().filter_map(|line| line.strip_prefix("//! - "));
  assert_eq!(
    listed.map(first_code).collect::<Vec<_>>(),
    top_down,
    "the order in src/lib.rs"
  );
  let architecture = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
  let rows = architecture.lines().filter_map(|line| line.strip_prefix("| `src/"));
  let listed = rows.filter_map(|row| row.split_once("/` |")).map(|(layer, _)| layer);
  assert_eq!(
    listed.collect::<Vec<_>>(),
    top_down,
    "the order in docs/architecture.md"
  );
}

#[test]
fn the_command_uses_only_the_public_api() {
  let allowed = ["index.js", "package.json"].map(PathBuf::from);
  let errors = javascript_errors("cli", |target| {
    target.starts_with("cli") || allowed.contains(&target.to_owned())
  });
  assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn the_library_does_not_use_the_command() {
  let errors = javascript_errors("lib", |target| {
    target.starts_with("lib") || target == Path::new("binding.js")
  });
  assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn crate_paths_are_found_in_every_form() {
  let module = ["backend", "file"].map(str::to_owned);
  let names = |source: &str| {
    let paths = crate_paths(source, &module);
    paths.into_iter().map(|path| (path.name, path.line)).collect::<Vec<_>>()
  };
  for (source, expected) in [
    ("use crate::store::Store;", vec![("store", 1)]),
    ("\nfn f() { crate :: api::f() }", vec![("api", 2)]),
    (
      "use crate::{store::{Store as S, self},\n json as j, api};",
      vec![("store", 1), ("json", 2), ("api", 2)],
    ),
    ("pub(crate) use super::super::store;", vec![("store", 1)]),
    ("use super::super::{store, json};", vec![("store", 1), ("json", 1)]),
    ("use super::{super::store, sqlite};", vec![("store", 1)]),
    ("use self::super::super::store;", vec![("store", 1)]),
    (
      "mod a { use super::super::x; use super::super::super::store; }",
      vec![("store", 1)],
    ),
    ("mod a {} use super::super::store;", vec![("store", 1)]),
    ("use super::super::x::y; use super::x;", vec![("x", 1)]),
    (
      "// use crate::store;\n/* crate::api /* crate::x */ */ \"crate::json\" r#\"crate::\"api\"#",
      vec![],
    ),
    (
      "fn f<'a>(x: &'a str) { let c = '\"'; crate::store::f(x) } // \"",
      vec![("store", 1)],
    ),
    (
      "let b = '{'; mod a { use super::super::super::store; }",
      vec![("store", 1)],
    ),
  ] {
    let expected: Vec<_> = expected
      .into_iter()
      .map(|(name, line)| (name.to_owned(), line))
      .collect();
    assert_eq!(names(source), expected, "{source}");
  }
}

fn root() -> PathBuf {
  PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn shown(path: &Path) -> String {
  let path = path.strip_prefix(root()).unwrap();
  path.to_str().unwrap().replace('\\', "/")
}

/// All files below a directory with that extension; at least one.
fn files_below(directory: &Path, extension: &str) -> Vec<PathBuf> {
  let mut files = Vec::new();
  let mut directories = vec![directory.to_owned()];
  while let Some(directory) = directories.pop() {
    for entry in fs::read_dir(directory).unwrap() {
      let path = entry.unwrap().path();
      if path.is_dir() {
        directories.push(path);
      } else if path.extension().is_some_and(|found| found == extension) {
        files.push(path);
      }
    }
  }
  assert!(!files.is_empty(), "no files in {}", directory.display());
  files.sort();
  files
}

/// The first word in a text that is marked as code.
fn first_code(text: &str) -> &str {
  text.split('`').nth(1).unwrap_or_default()
}

/// The layers of the names that `src/lib.rs` re-exports.
fn re_exports() -> HashMap<String, String> {
  let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
  let mut layers = HashMap::new();
  for line in lib.lines().filter_map(|line| line.strip_prefix("pub use ")) {
    let (path, names) = line.trim_end_matches(';').rsplit_once("::").unwrap();
    let layer = path.split("::").next().unwrap();
    for name in names.trim_matches(['{', '}']).split(',') {
      layers.insert(name.trim().to_owned(), layer.to_owned());
    }
  }
  layers
}

/// The module path of a file in `src`.
fn module_of(file: &Path) -> Vec<String> {
  let path = file.strip_prefix(root().join("src")).unwrap().with_extension("");
  let mut module: Vec<_> = path.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
  if module.last().is_some_and(|name| name == "mod") {
    module.pop();
  }
  module
}

/// A path that begins at the root of the crate: its first name.
#[derive(Debug)]
struct CratePath {
  name: String,
  line: usize,
}

struct Token<'a> {
  text: &'a str,
  line: usize,
}

/// All paths in a source file that lead to the root of the crate through `crate` or `super`. `module` is the module of the file.
fn crate_paths(source: &str, module: &[String]) -> Vec<CratePath> {
  let tokens = tokens(source);
  let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
  let mut paths = Vec::new();
  // The names of the inline modules that are open; `None` for other braces.
  let mut blocks: Vec<Option<&str>> = Vec::new();
  for at in 0..tokens.len() {
    match text(at) {
      "{" if at >= 2 && text(at - 2) == "mod" => blocks.push(Some(text(at - 1))),
      "{" => blocks.push(None),
      "}" => drop(blocks.pop()),
      "crate" | "super" | "self" if text(at + 1) == "::" && (at == 0 || text(at - 1) != "::") => {
        let inline = blocks.iter().flatten().count();
        follow(&tokens, at, module.len() + inline, &mut paths);
      }
      _ => {}
    }
  }
  paths
}

/// Follows the path that begins at a token, with its groups. `depth` is the number of modules above its start. Returns the index
/// of the token after it.
fn follow(tokens: &[Token<'_>], start: usize, mut depth: usize, paths: &mut Vec<CratePath>) -> usize {
  let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
  let mut at = start;
  loop {
    match text(at) {
      "crate" => depth = 0,
      "super" => depth -= 1,
      "self" => {}
      "{" => {
        at += 1;
        while at < tokens.len() && text(at) != "}" {
          at = match text(at) {
            "," => at + 1,
            "as" => at + 2,
            _ => follow(tokens, at, depth, paths),
          };
        }
        return at + 1;
      }
      name => {
        if depth == 0 {
          let (name, line) = (name.to_owned(), tokens[at].line);
          paths.push(CratePath { name, line });
        }
        // What follows is below the first name.
        depth += 1;
      }
    }
    if text(at + 1) != "::" {
      return at + 1;
    }
    at += 2;
  }
}

/// The words and marks of Rust source, without comments, strings and characters.
fn tokens(source: &str) -> Vec<Token<'_>> {
  let is_word = |character: char| character.is_alphanumeric() || character == '_';
  let mut tokens = Vec::new();
  let (mut at, mut line) = (0, 1);
  while let Some(first) = source[at..].chars().next() {
    let rest = &source[at..];
    let word = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
    let length = if rest.starts_with("//") {
      rest.find('\n').unwrap_or(rest.len())
    } else if rest.starts_with("/*") {
      block_comment(rest)
    } else if let Some(length) = raw_string(rest) {
      length
    } else if first == '"' {
      quoted(rest, '"')
    } else if first == '\'' && is_character(rest) {
      quoted(rest, '\'')
    } else {
      let length = match first {
        ':' if rest.starts_with("::") => 2,
        _ => word.max(first.len_utf8()),
      };
      if !first.is_whitespace() {
        let text = &rest[..length];
        tokens.push(Token { text, line });
      }
      length
    };
    line += rest[..length].matches('\n').count();
    at += length;
  }
  tokens
}

/// The length of a block comment, which can contain others.
fn block_comment(text: &str) -> usize {
  let mut depth = 0;
  for (at, _) in text.match_indices(['/', '*']) {
    if text[at..].starts_with("/*") {
      depth += 1;
    } else if text[at..].starts_with("*/") {
      depth -= 1;
      if depth == 0 {
        return at + 2;
      }
    }
  }
  text.len()
}

/// The length of a raw string at the beginning of a text.
fn raw_string(text: &str) -> Option<usize> {
  let body = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
  let hashes = body.len() - body.trim_start_matches('#').len();
  let body = body[hashes..].strip_prefix('"')?;
  let end = body.find(&format!("\"{}", "#".repeat(hashes)))?;
  Some(text.len() - body.len() + end + 1 + hashes)
}

/// The length of a string or character in quotes.
fn quoted(text: &str, quote: char) -> usize {
  let mut characters = text.char_indices().skip(1);
  while let Some((at, character)) = characters.next() {
    if character == '\\' {
      characters.next();
    } else if character == quote {
      return at + 1;
    }
  }
  text.len()
}

/// Whether a quotation mark begins a character, not a lifetime.
fn is_character(text: &str) -> bool {
  let mut characters = text.chars().skip(1);
  characters.next() == Some('\\') || characters.next() == Some('\'')
}

/// What the modules in a directory load apart from Node's own and what `is_allowed` accepts, by its path in the repository.
fn javascript_errors(directory: &str, is_allowed: impl Fn(&Path) -> bool) -> Vec<String> {
  let mut errors = Vec::new();
  for file in files_below(&root().join(directory), "js") {
    let source = fs::read_to_string(&file).unwrap();
    for (index, line) in source.lines().enumerate() {
      for module in loaded_modules(line) {
        let is_relative = module.starts_with("./") || module.starts_with("../");
        let target = relative_to(file.parent().unwrap(), module);
        let is_accepted = module.starts_with("node:") || is_relative && is_allowed(&target);
        if !is_accepted {
          errors.push(format!("{}:{}: loads '{module}'", shown(&file), index + 1));
        }
      }
    }
  }
  errors
}

/// The modules that a line loads, as it names them.
fn loaded_modules(line: &str) -> Vec<&str> {
  let code = line.trim_start();
  if code.starts_with("//") || code.starts_with('*') || code.starts_with("/*") {
    return Vec::new();
  }
  let mut modules = Vec::new();
  for keyword in ["require(", "import(", "from ", "import "] {
    for (at, _) in code.match_indices(keyword) {
      let argument = &code[at + keyword.len()..];
      let quote = argument
        .chars()
        .next()
        .filter(|quote| matches!(quote, '\'' | '"' | '`'));
      if let Some(quote) = quote {
        modules.push(argument[1..].split(quote).next().unwrap());
      }
    }
  }
  modules
}

/// The path in the repository of a module that is named relative to a directory.
fn relative_to(directory: &Path, module: &str) -> PathBuf {
  let mut path = directory.strip_prefix(root()).unwrap().to_owned();
  for component in Path::new(module).components() {
    match component {
      Component::CurDir => {}
      Component::ParentDir => drop(path.pop()),
      other => path.push(other),
    }
  }
  path
}
