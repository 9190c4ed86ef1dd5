import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { before, describe, it } from 'node:test'

import {
  COLOURED,
  STYLED,
  WIDTHS,
  assertFits,
  assertNoEscapes,
  assertPlain,
  jsonDocumentOf,
} from '../support/cli-output.mjs'
import { COMMAND, environment, outcomeOf, startWaymark, waymark } from '../support/command.mjs'
import { ENCODINGS, OWNER, SESSIONS } from '../support/example-store.mjs'
import { readOnlyStore } from '../support/read-only-store.mjs'
import { noTerminal, seenOf } from '../support/terminal.mjs'

/** Commands that draw a progress bar, which needs escape sequences. */
const HAS_PROGRESS = new Set(['verify', 'prune'])

describe('the output', () => {
  let location
  let ids

  readOnlyStore((store) => {
    ;({ location, ids } = store)
  })

  const linesOf = ({ stdout }) => stdout.trimEnd().split('\n')

  /** The arguments, the exit code, and what must be visible in every form of the output. */
  const OUTPUTS = {
    'of ls': {
      args: () => ['ls'],
      has: () => [/nightly-build/, /active/, /completed/, /failed/, /夜間 🚀/, /\b8\b/, /worker/],
    },
    'of ls for a session': {
      args: () => ['ls', 'nightly-build'],
      has: () => [
        ...ids.build.map(prefixOf),
        /green/,
        ...ENCODINGS.map((encoding) => new RegExp(encoding)),
        /whole, pin/,
      ],
    },
    'of ls for a damaged session': {
      args: () => ['ls', 'broken'],
      has: () => [...ids.broken.map(prefixOf), /damaged/, /whole/, /waymark verify/, /not valid JSON/],
    },
    'of ls --agents': {
      args: () => ['ls', 'nightly-build', '--agents'],
      has: () => [/writer/, /critic/, /halted/],
    },
    'of ls for a session without checkpoints': { args: () => ['ls', 'agents only'], has: () => [/no checkpoints/] },
    'of log': {
      args: () => ['log', 'nightly-build'],
      has: () => [...ids.build.map((id) => new RegExp(id)), /what-if/, /green/],
    },
    'of log for a fork': {
      args: () => ['log', 'what-if'],
      has: () => [/nightly-build/, new RegExp(ids.build[2])],
    },
    'of log for a damaged session': { args: () => ['log', 'broken'], has: () => [new RegExp(ids.broken[2])] },
    'of show': {
      args: () => ['show', 'nightly-build'],
      has: () => [/Nightly build/, /active/, /root/, /module-3\b/, /agent-2/, /E_TIMEOUT/],
    },
    'of show for a failed session': {
      args: () => ['show', 'migration'],
      has: () => [/Migration of everything/, /failed/, /E_PAINT/],
    },
    'of show for a leased session': { args: () => ['show', 'owned'], has: () => [/worker-7/] },
    'of show with wide characters': { args: () => ['show', '夜間 🚀'], has: () => [/夜間ビルド/, /paused/] },
    'of show for cyclic tasks': {
      args: () => ['show', 'tangled', '--all'],
      has: () => [/root/, /orphan/, /\bc\b/],
    },
    'of show for a session with only agents': { args: () => ['show', 'agents only'], has: () => [/lonely/] },
    'of show for a checkpoint': {
      args: () => ['show', 'nightly-build/green'],
      has: () => [new RegExp(ids.build[2]), /green/, /root/, /agent-2/],
    },
    'of show --all': { args: () => ['show', 'nightly-build', '--all'], has: () => [/module-7\.6\.5/] },
    'of diff': {
      args: () => ['diff', 'nightly-build/green', 'nightly-build/latest'],
      code: 1,
      has: () => [/module-4/, /module-6\.1/, /completed/],
    },
    'of diff for one checkpoint': {
      args: () => ['diff', 'nightly-build/green', 'nightly-build/green'],
      has: () => [/checkpoints are identical/],
    },
    'of stats': {
      args: () => ['stats'],
      has: () => [/nightly-build/, /migration/, ...ENCODINGS.map((encoding) => new RegExp(encoding, 'i'))],
    },
    'of stats for a session': { args: () => ['stats', 'nightly-build'], has: () => [/nightly-build/, /delta/i] },
    'of verify for a whole session': { args: () => ['verify', 'nightly-build'], has: () => [/whole/] },
    'of verify': {
      args: () => ['verify'],
      code: 1,
      has: () => [/broken/, new RegExp(ids.broken[2]), /damaged/, /waymark recover/],
    },
    'of prune --dry-run': {
      args: () => ['prune', 'nightly-build', '--keep-last', '1', '--dry-run'],
      has: () => [1, 3, 6].map((number) => new RegExp(ids.build[number])),
    },
  }

  for (const [what, { args, code = 0, has }] of Object.entries(OUTPUTS)) {
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

      it('is plain, complete text in a pipe', () => {
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

      it('has the same lines without escape sequences with NO_COLOR', { skip: noTerminal }, () => {
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

  it('fits a terminal of 40 columns', { skip: noTerminal }, async () => {
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

  it('is not coloured on a dumb terminal', { skip: noTerminal }, async () => {
    const { raw } = await seenOf(['ls', location], { env: { TERM: 'dumb' } })
    assertPlain(raw.replaceAll('\r\n', '\n'))
  })

  it('is a plain document with --json on a terminal', { skip: noTerminal }, async () => {
    const { code, raw } = await seenOf(['ls', location, '--json'], { columns: 200 })
    assert.equal(code, 0)
    assert.equal(JSON.parse(raw).sessions.length, SESSIONS.length)
  })

  it('is not coloured in a pipe, even with FORCE_COLOR', async () => {
    assertNoEscapes(await waymark(['ls', location], { env: { FORCE_COLOR: '3' } }))
  })

  it('is ASCII in a C locale', { skip: noTerminal }, async () => {
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

  it('of ls has one line per session, sorted', async () => {
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

  it('of ls for a session lists checkpoints newest first, with parent, trigger and time', async () => {
    const [header, ...lines] = linesOf(await waymark(['ls', 'nightly-build', location]))
    assert.match(header, /CHECKPOINT.*WHEN.*AGO.*TRIGGER.*LABEL.*PARENT.*SIZE.*STATE/)
    assert.deepEqual(
      lines.map((line) => line.split(' ')[0]),
      ids.build.toReversed(),
    )
    assert.ok(lines[2].includes(ids.build[2]), 'the parent of the checkpoint after the restore')
    assert.match(lines[5], /manual +green .* zstd +whole, pinned/)
    assert.match(lines[0], /^\S+ +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d /)
  })

  it('of ls marks only the damaged checkpoint', async () => {
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

  it('of log draws one lane for each branch', async () => {
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

  it('of show collapses the tree past --depth and counts its tasks', async () => {
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

  it('with --json is the result of the class', async () => {
    const { CheckpointStore } = await import('../support/stores.mjs')
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

  it('of show accepts an id, a unique prefix, a label and latest~n', async () => {
    const [, , green] = ids.build
    const prefix = uniquePrefix(green, ids.build)
    const words = [green, prefix, 'green', 'latest~5']
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
    // The session by a unique prefix.
    assert.equal(jsonDocumentOf(await waymark(['show', 'nightly-b/green', location, '--json'])).id, green)
  })

  it('of show for a damaged checkpoint is an error that names the previous one', async () => {
    const outcome = await waymark(['show', 'broken/damaged', location])
    assert.deepEqual([outcome.code, outcome.stdout], [1, ''])
    assert.match(outcome.stderr, /^waymark: .*damaged.*waymark show broken\/latest~1 /)
  })

  it('of diff shows the old and new status of a task', async () => {
    const { stdout } = await waymark(['diff', 'nightly-build/green', 'latest', location])
    assert.match(stdout, /module-4\b.*failed (→|->) completed/)
  })

  it('of diff compares checkpoints of two sessions', async () => {
    const outcome = await waymark(['diff', 'nightly-build/green', 'what-if/latest', location, '--json'])
    const { a, b } = jsonDocumentOf(outcome)
    assert.deepEqual([a.sessionId, a.checkpointId, b.sessionId], ['nightly-build', ids.build[2], 'what-if'])
  })

  describe('to a closed pipe', () => {
    const noShell = process.platform === 'win32' && 'Windows has no bash'

    it('is no error in a shell pipeline', { skip: noShell }, () => {
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

    it('does not change the exit code', async () => {
      for (const args of [['verify'], ['diff', 'nightly-build/green', 'latest']]) {
        const child = startWaymark([...args, '--store', location])
        child.stdout.destroy()
        child.stderr.destroy()
        assert.equal((await outcomeOf(child)).code, 1)
      }
    })
  })

  it(
    'to a full disk is an error in one sentence',
    { skip: !existsSync('/dev/full') && 'there is no /dev/full' },
    () => {
      const { status, stderr } = spawnSync(
        'sh',
        ['-c', '"$0" "$@" > /dev/full', process.execPath, COMMAND, 'ls', location],
        { env: environment(), encoding: 'utf8' },
      )
      assert.deepEqual([status, stderr.split('\n').length], [1, 2], stderr)
      assert.match(stderr, /^waymark: .*no space left on device/)
    },
  )
})

const linesIn = (text) => text.split('\n').length

/** Replaces lines with relative times, which change during the test, and the column widths that follow from them. */
function timeless(lines) {
  return lines.map((line) =>
    /\b(?:now|ago|\d+ (?:ms|s))\b/.test(line) ? 'relative time' : line.replace(/ {2,}/g, '  '),
  )
}

/** Matches an id, or its shortest unique prefix where the id is truncated. */
function prefixOf(id, _, all) {
  return new RegExp(uniquePrefix(id, all))
}

function uniquePrefix(id, others) {
  const isUnique = (length) => others.every((other) => other === id || !other.startsWith(id.slice(0, length)))
  let length = 1
  while (!isUnique(length)) length += 1
  return id.slice(0, length)
}
