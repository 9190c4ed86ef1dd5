// Finds words that the project does not use, with the words to use instead: `npm run check:words`.
//
//   node scripts/check-words.mjs [path ...]

import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const THIS_FILE = 'scripts/check-words.mjs'

const CHECKED = [
  'src',
  'cli',
  'lib',
  'docs',
  'demo',
  'examples',
  'benchmark',
  'faults',
  'scripts',
  'index.js',
  'index.d.ts',
  ':(glob)*.md',
]
const FILE_TYPES = /\.(c|d\.ts|js|md|mjs|rs)$/

const ACTOR = 'the actor: the caller, another process, the owner, a program'

/** A word and what to use instead. Case is ignored, except in names of types. */
const BANNED = [
  [/\b(some|any)(body|one)\b/i, ACTOR],
  // Not the account of that name.
  [/(?<!['"]|user )\bno(body| one)\b/i, `${ACTOR}, with "no" or "not"`],
  [/\bwho(ever|soever|mever)\b/i, ACTOR],
  [/\bwho (asks|asked|looks|wants|comes|waits)\b/i, ACTOR],
  [/\bat hand\b/i, '"in memory" or "available"'],
  [/\bgo(es|ing)? along\b/i, '"with it", "together with"'],
  [/\bwithout a word\b/i, '"by default"'],
  [/\bcorridors?\b/i, '"data flow"'],
  [/\brooms?\b/i, '"layer" or "space"'],
  [/\bplaces\b/i, '"backends" or "locations"'],
  [/\b(each|every|any|another|no|which) place\b/i, '"backend" or "location"'],
  [/\bst(ands?|ood|anding) on\b/i, '"is based on"'],
  [/\bby way of\b/i, '"through"'],
  [/\bwhat is there\b/i, 'the noun: the stored data, the existing file'],
  [/\bdoing it twice\b/i, '"idempotent"'],
  [/\b(gives?|gave|given|giving)[ _]back\b/i, '"release" or "return"'],
  [/\bhow-manieth\b/i, '"ordinal"'],
  [/\b(did|does|do|is|are|was|were) so again\b/i, 'the verb'],
  [/\bcomplaints?\b/i, '"error", "message" or "finding"'],
  [/\bpatien(ce|t|tly)\b/i, '"timeout" or "retry"'],
  [/\bportraits?\b/i, '"view"'],
  [/\bsurplus\b/i, '"retention list"'],
  [/\bfooting\b/i, 'BaseRef, "base"'],
  [/\b(Glance|Happened|Outlook|Encoded|Sound)\b(?= ?[{(<:;]|::)/, 'SessionSnapshot, NameChange, CheckpointContent'],
  [/\b(settle_newest|give_back_space|confirm_retired)\b/, 'refresh_latest_link, vacuum, sync_deletes'],
]

/** Each use of a banned word in a text: `{ line, word, instead }`. */
export function bannedIn(text) {
  return text.split('\n').flatMap((line, index) =>
    BANNED.flatMap(([pattern, instead]) =>
      [...line.matchAll(new RegExp(pattern, `g${pattern.flags}`))].map(([word]) => ({
        line: index + 1,
        word,
        instead,
      })),
    ),
  )
}

function checkedFiles(paths) {
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--', ...paths], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  return listed
    .split('\0')
    .filter((path) => FILE_TYPES.test(path) && path !== THIS_FILE && existsSync(join(ROOT, path)))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const paths = process.argv.length > 2 ? process.argv.slice(2) : CHECKED
  let count = 0
  for (const path of checkedFiles(paths)) {
    for (const { line, word, instead } of bannedIn(readFileSync(join(ROOT, path), 'utf8'))) {
      console.log(`${path}:${line}: "${word}": use ${instead}`)
      count += 1
    }
  }
  if (count > 0) {
    console.error(`${count} banned words`)
    process.exitCode = 1
  }
}
