import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'

import {
  COLOURED,
  STYLED,
  WIDTHS,
  assertFits,
  assertNoEscapes,
  assertPlain,
  jsonDocumentOf,
} from './support/cli-output.mjs'
import { COMMAND, environment, outcomeOf, startWaymark, waymark } from './support/command.mjs'
import { ENCODINGS, OWNER, SESSIONS, contentsOfStore, exampleStore } from './support/example-store.mjs'
import { noTerminal, seenOf } from './support/terminal.mjs'

/** While they read, a bar is redrawn, which takes more than letters. */
const HAS_PROGRESS = new Set(['verify', 'prune'])

describe('what the command shows', () => {
  let location
  let ids
  let snapshot

  before(async () => {
    ;({ location, ids } = await exampleStore())
    snapshot = contentsOfStore(location)
  })

  after(() => assert.deepEqual(contentsOfStore(location), snapshot, 'nothing has changed'))

  const linesOf = ({ stdout }) => stdout.trimEnd().split('\n')

  /** What people look at, the exit code, and what must be there wherever it is shown. */
  const LOOKS = {
    'the sessions': {
      args: () => ['ls'],
      has: () => [/nightly-build/, /active/, /completed/, /failed/, /夜間 🚀/, /\b8\b/, /worker/],
    },
    'the checkpoints of a session': {
      args: () => ['ls', 'nightly-build'],
      has: () => [...ids.build.map(begun), /green/, ...ENCODINGS.map((encoding) => new RegExp(encoding)), /whole, pin/],
    },
    'the checkpoints of a damaged session': {
      args: () => ['ls', 'broken'],
      has: () => [...ids.broken.map(begun), /damaged/, /whole/, /waymark verify/, /not valid JSON/],
    },
    'the checkpoints of agents': {
      args: () => ['ls', 'nightly-build', '--agents'],
      has: () => [/writer/, /critic/, /halted/],
    },
    'the checkpoints of a session that has none': { args: () => ['ls', 'agents only'], has: () => [/no checkpoints/] },
    'the history': {
      args: () => ['log', 'nightly-build'],
      has: () => [...ids.build.map((id) => new RegExp(id)), /what-if/, /green/],
    },
    'the history of a fork': {
      args: () => ['log', 'what-if'],
      has: () => [/nightly-build/, new RegExp(ids.build[2])],
    },
    'the history of a damaged session': { args: () => ['log', 'broken'], has: () => [new RegExp(ids.broken[2])] },
    'a session': {
      args: () => ['show', 'nightly-build'],
      has: () => [/Nightly build/, /active/, /root/, /module-3\b/, /agent-2/, /E_TIMEOUT/],
    },
    'a failed session': {
      args: () => ['show', 'migration'],
      has: () => [/Migration of everything/, /failed/, /E_PAINT/],
    },
    'an owned session': { args: () => ['show', 'owned'], has: () => [/worker-7/] },
    'a session of wide letters': { args: () => ['show', '夜間 🚀'], has: () => [/夜間ビルド/, /paused/] },
    'a session whose tasks go round in circles': {
      args: () => ['show', 'tangled', '--all'],
      has: () => [/root/, /orphan/, /\bc\b/],
    },
    'a session that only has agents': { args: () => ['show', 'agents only'], has: () => [/lonely/] },
    'a checkpoint': {
      args: () => ['show', 'nightly-build/green'],
      has: () => [new RegExp(ids.build[2]), /green/, /root/, /agent-2/],
    },
    'all of a tree': { args: () => ['show', 'nightly-build', '--all'], has: () => [/module-7\.6\.5/] },
    'what changed': {
      args: () => ['diff', 'nightly-build/green', 'nightly-build/latest'],
      code: 1,
      has: () => [/module-4/, /module-6\.1/, /completed/],
    },
    'that nothing changed': {
      args: () => ['diff', 'nightly-build/green', 'nightly-build/green'],
      has: () => [/[Nn]othing|[Ii]dentical|[Ss]ame/],
    },
    'what it takes up': {
      args: () => ['stats'],
      has: () => [/nightly-build/, /migration/, ...ENCODINGS.map((encoding) => new RegExp(encoding, 'i'))],
    },
    'what one session takes up': { args: () => ['stats', 'nightly-build'], has: () => [/nightly-build/, /delta/i] },
    'that everything is whole': { args: () => ['verify', 'nightly-build'], has: () => [/whole/] },
    'what is damaged': {
      args: () => ['verify'],
      code: 1,
      has: () => [/broken/, new RegExp(ids.broken[2]), /damaged/, /waymark recover/],
    },
    'what would be pruned': {
      args: () => ['prune', 'nightly-build', '--keep-last', '1', '--dry-run'],
      has: () => [1, 3, 6].map((number) => new RegExp(ids.build[number])),
    },
  }

  for (const [what, { args, code = 0, has }] of Object.entries(LOOKS)) {
    describe(what, () => {
      let plain
      let machine
      let colourless
      const seen = {}

      before(async () => {
        const words = [...args(), '--store', location]
        const env = { NO_COLOR: '1', FORCE_COLOR: '1' }
        const terminals = noTerminal
          ? []
          : [...WIDTHS.map((columns) => seenOf(words, { columns })), seenOf(words, { env })]
        ;[plain, machine, seen[80], seen[120], colourless] = await Promise.all([
          waymark(words),
          waymark([...words, '--json']),
          ...terminals,
        ])
      })

      it('is plain text in a pipe, and nothing is cut off there', () => {
        assert.equal(plain.code, code, plain.stderr)
        assertNoEscapes(plain)
        for (const pattern of has()) assert.match(plain.stdout, pattern)
        assert.doesNotMatch(plain.stdout, /…$/m)
      })

      it('is one document with --json', () => {
        assert.equal(machine.code, code, machine.stderr)
        assert.equal(typeof jsonDocumentOf(machine), 'object')
      })

      for (const columns of WIDTHS) {
        it(`fits a terminal of ${columns} columns`, { skip: noTerminal }, () => {
          assert.equal(seen[columns].code, code, seen[columns].text)
          assertFits(seen[columns])
          for (const pattern of has()) assert.match(seen[columns].text, pattern)
        })
      }

      it('has no escape sequence with NO_COLOR, and the same lines', { skip: noTerminal }, () => {
        assert.equal(colourless.code, code, colourless.text)
        assert.doesNotMatch(colourless.raw, STYLED)
        if (!HAS_PROGRESS.has(args()[0])) assertPlain(colourless.raw.replaceAll('\r\n', '\n'))
        assert.deepEqual(timeless(colourless.lines), timeless(seen[80].lines))
      })
    })
  }

  it('is coloured on a terminal', { skip: noTerminal }, async () => {
    for (const args of [['ls'], ['show', 'nightly-build'], ['log', 'nightly-build'], ['verify', 'broken']]) {
      const { raw } = await seenOf([...args, location])
      assert.match(raw, COLOURED, args.join(' '))
    }
  })

  it('has tables and trees that fit a terminal narrower than anybody expects', { skip: noTerminal }, async () => {
    for (const args of [
      ['ls'],
      ['ls', 'nightly-build'],
      ['show', 'nightly-build'],
      ['log', 'nightly-build'],
      ['stats'],
    ]) {
      assertFits(await seenOf([...args, location], { columns: 40 }))
    }
  })

  it('is not coloured on a terminal that cannot show colours', { skip: noTerminal }, async () => {
    const { raw } = await seenOf(['ls', location], { env: { TERM: 'dumb' } })
    assertPlain(raw.replaceAll('\r\n', '\n'))
  })

  it('is a document without colours on a terminal too', { skip: noTerminal }, async () => {
    const { code, raw } = await seenOf(['ls', location, '--json'], { columns: 200 })
    assert.equal(code, 0)
    assert.equal(JSON.parse(raw).sessions.length, SESSIONS.length)
  })

  it('is not coloured in a pipe, whatever else is wanted', async () => {
    assertNoEscapes(await waymark(['ls', location], { env: { FORCE_COLOR: '3' } }))
  })

  it('is drawn with ASCII where the locale knows nothing else', { skip: noTerminal }, async () => {
    for (const args of [
      ['log', 'nightly-report'],
      ['show', 'nightly-report'],
      ['ls', 'nightly-report'],
      ['stats', 'nightly-report'],
    ]) {
      const { text } = await seenOf([...args, location], { env: { LANG: 'C', LC_ALL: 'C' } })
      assert.match(text, /^[\n -~]*$/)
    }
  })

  it('lists all sessions, sorted, each in a line', async () => {
    const outcome = await waymark(['ls', location])
    const [header, ...lines] = linesOf(outcome)
    assert.match(header, /SESSION.*STATUS.*TASKS.*CHECKPOINTS.*NEWEST.*SIZE.*OWNER/)
    assert.deepEqual(
      lines.map((line) => SESSIONS.find((session) => line.startsWith(session))),
      SESSIONS,
    )
    const build = lines.find((line) => line.startsWith('nightly-build'))
    assert.match(build, /active.*\d+\/401.* 8 .* (kB|MB)/)
    assert.ok(lines.find((line) => line.startsWith('owned')).includes(OWNER))
  })

  it('lists checkpoints with the newest first, each with its parent, its trigger and its time', async () => {
    const [header, ...lines] = linesOf(await waymark(['ls', 'nightly-build', location]))
    assert.match(header, /CHECKPOINT.*WHEN.*AGO.*TRIGGER.*LABEL.*PARENT.*SIZE.*STATE/)
    assert.deepEqual(
      lines.map((line) => line.split(' ')[0]),
      ids.build.toReversed(),
    )
    assert.ok(lines[2].includes(ids.build[2]), 'the parent of the one that was made after going back')
    assert.match(lines[5], /manual +green .* zstd +whole, pinned/)
    assert.match(lines[0], /^\S+ +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d /)
  })

  it('says which checkpoint is damaged, and only that one', async () => {
    const lines = linesOf(await waymark(['ls', 'broken', location]))
    const damaged = lines.filter((line) => line.startsWith('cp-') && /damaged *$/.test(line))
    assert.deepEqual(
      damaged.map((line) => line.split(' ')[0]),
      [ids.broken[2]],
    )
    const { checkpoints } = jsonDocumentOf(await waymark(['ls', 'broken', location, '--json']))
    assert.deepEqual(
      checkpoints.map(({ id, whole }) => [id, whole]),
      [
        [ids.broken[2], false],
        [ids.broken[1], true],
        [ids.broken[0], true],
      ],
    )
  })

  it('draws the history as a graph: what went back stands beside what went on', async () => {
    const lines = linesOf(await waymark(['log', 'nightly-build', location]))
    const columnOf = (id) => {
      const line = lines.find((text) => text.includes(id))
      return line.search(/[●◉*○◇✗]/)
    }
    const columns = ids.build.map(columnOf)
    assert.ok(
      columns.every((column) => column >= 0),
      lines.join('\n'),
    )
    // 3 and 4 were made from 2 as 5, 6 and 7 were: two branches, one column each.
    assert.equal(new Set([5, 6, 7].map((number) => columns[number])).size, 1, lines.join('\n'))
    assert.equal(columns[3], columns[4], lines.join('\n'))
    assert.notEqual(columns[4], columns[5], lines.join('\n'))
    const order = lines.flatMap((line) => ids.build.filter((id) => line.includes(id)).slice(0, 1))
    assert.deepEqual(order, ids.build.toReversed(), 'newest first')
  })

  it('folds a tree past a depth, and says how much is inside', async () => {
    const shown = async (...options) => (await waymark(['show', 'nightly-build', ...options, location])).stdout
    const [one, usual, all] = await Promise.all([shown('--depth', '2'), shown(), shown('--all')])
    assert.match(one, /module-3\b/)
    assert.doesNotMatch(one, /^[│├└].*module-3\.1\b/m)
    // Below each module are 7 parts with 6 steps each.
    assert.match(one, /\b49 tasks\b/)
    assert.ok(linesIn(one) < linesIn(all))
    assert.ok(linesIn(usual) <= linesIn(all))
    for (let module = 0; module < 8; module += 1) assert.ok(all.includes(`module-${module}.6.5`))
    assert.doesNotMatch(all, /\b49 tasks\b/)
  })

  it('gives the raw thing with --json: what the class gives', async () => {
    const { CheckpointStore } = await import('./support/stores.mjs')
    const store = new CheckpointStore(location)
    await store.initialize()
    const shown = jsonDocumentOf(await waymark(['show', 'nightly-build/green', location, '--json']))
    const checkpoint = await store.getCheckpoint('nightly-build', ids.build[2])
    assert.deepEqual(shown.taskTree, checkpoint.taskTree)
    assert.deepEqual(shown.agentStates, checkpoint.agentStates)
    assert.deepEqual(shown.session.errors, checkpoint.session.errors)
    const { sessions } = jsonDocumentOf(await waymark(['ls', location, '--json']))
    const infos = await store.sessionsInfo()
    assert.deepEqual(
      sessions.map(({ id, sizeBytes, lease }) => [id, sizeBytes, lease?.owner]),
      infos.map(({ id, sizeBytes, lease }) => [id, sizeBytes, lease?.owner]),
    )
    const diff = jsonDocumentOf(await waymark(['diff', 'nightly-build/green', 'latest', location, '--json']))
    const expected = await store.diffCheckpoints(`nightly-build/${ids.build[2]}`, `nightly-build/${ids.build[7]}`)
    assert.deepEqual([diff.identical, diff.tasks], [false, expected.tasks])
    await store.close()
  })

  it('finds a checkpoint by its id, a beginning of it, its label, and by counting back', async () => {
    const [, , green] = ids.build
    const beginning = uniqueBeginning(green, ids.build)
    const words = [green, beginning, 'green', 'latest~5']
    const shown = await Promise.all(
      words.map(
        async (word) => jsonDocumentOf(await waymark(['show', `nightly-build/${word}`, location, '--json'])).id,
      ),
    )
    assert.deepEqual(shown, [green, green, green, green])
    const others = {
      [ids.build[7]]: 'latest',
      [ids.build[6]]: 'latest~1',
      [ids.build[0]]: 'before the refactoring',
      [ids.build[5]]: '夜間ビルド 🚀 e\u0301tape',
    }
    for (const [id, word] of Object.entries(others)) {
      assert.equal(jsonDocumentOf(await waymark(['show', `nightly-build/${word}`, location, '--json'])).id, id)
    }
    // The session itself by a unique beginning.
    assert.equal(jsonDocumentOf(await waymark(['show', 'nightly-b/green', location, '--json'])).id, green)
  })

  it('shows a damaged checkpoint by saying that it is', async () => {
    const outcome = await waymark(['show', 'broken/damaged', location])
    assert.deepEqual([outcome.code, outcome.stdout], [1, ''])
    assert.match(outcome.stderr, /^waymark: .*damaged.*waymark show broken\/latest~1 /)
  })

  it('says what changed for people: a task and its status before and after', async () => {
    const { stdout } = await waymark(['diff', 'nightly-build/green', 'latest', location])
    assert.match(stdout, /module-4\b.*failed (→|->) completed/)
  })

  it('compares checkpoints of two sessions', async () => {
    const outcome = await waymark(['diff', 'nightly-build/green', 'what-if/latest', location, '--json'])
    const { a, b } = jsonDocumentOf(outcome)
    assert.deepEqual([a.sessionId, a.checkpointId, b.sessionId], ['nightly-build', ids.build[2], 'what-if'])
  })

  describe('to a reader that goes away', () => {
    const noShell = process.platform === 'win32' && 'Windows has no bash'

    it('is no error in a pipeline, however much there was to come', { skip: noShell }, () => {
      for (const args of [['ls'], ['show', 'nightly-build', '--json']]) {
        const line = `set -o pipefail; "$0" "$@" | head -1`
        const { status, stdout, stderr } = spawnSync(
          'bash',
          ['-c', line, process.execPath, COMMAND, ...args, '--store', location],
          { env: environment(), encoding: 'utf8' },
        )
        assert.deepEqual([status, stderr], [0, ''])
        assert.equal(stdout.split('\n').length, 2)
      }
    })

    for (const args of [['ls'], ['show', 'nightly-build', '--all'], ['show', 'nightly-build', '--json'], ['--help']]) {
      it(`is no error: ${args.join(' ')}`, async () => {
        const child = startWaymark(args[0] === '--help' ? args : [...args, location])
        child.stdout.destroy()
        const { code, signal, stderr } = await outcomeOf(child)
        assert.deepEqual({ code, signal, stderr }, { code: 0, signal: null, stderr: '' })
      })
    }

    it('leaves the answer what it is', async () => {
      for (const args of [['verify'], ['diff', 'nightly-build/green', 'latest']]) {
        const child = startWaymark([...args, '--store', location])
        child.stdout.destroy()
        child.stderr.destroy()
        assert.equal((await outcomeOf(child)).code, 1)
      }
    })
  })

  it('says in a sentence that a disk is full', { skip: !existsSync('/dev/full') && 'there is no /dev/full' }, () => {
    const { status, stderr } = spawnSync(
      'sh',
      ['-c', '"$0" "$@" > /dev/full', process.execPath, COMMAND, 'ls', location],
      { env: environment(), encoding: 'utf8' },
    )
    assert.deepEqual([status, stderr.split('\n').length], [1, 2], stderr)
    assert.match(stderr, /^waymark: .*no space left on device/)
  })
})

const linesIn = (text) => text.split('\n').length

/** What is said about how long ago something was changes while the test runs; there is a line all the same. */
function timeless(lines) {
  return lines.map((line) => (/\b(?:now|ago|\d+ (?:ms|s))\b/.test(line) ? 'some time ago' : line))
}

/** An id, or as much of it as nothing else begins with, where there is no room for more. */
function begun(id, _, all) {
  return new RegExp(uniqueBeginning(id, all))
}

function uniqueBeginning(id, others) {
  const isUnique = (length) => others.every((other) => other === id || !other.startsWith(id.slice(0, length)))
  let length = 1
  while (!isUnique(length)) length += 1
  return id.slice(0, length)
}
