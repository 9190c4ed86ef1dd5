import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'

import { COMMAND, environment, waymark } from '../support/command.mjs'
import { contentsOfStore, copyOfStore, exampleStore } from '../support/example-store.mjs'
import { makeSession } from '../support/sessions.mjs'
import { snapshotOf } from '../support/snapshot.mjs'
import { OPTIONS, checkpointOf, openStore, scratchDirectory } from '../support/stores.mjs'
import { noTerminal, openTerminal } from '../support/terminal.mjs'

const SHELLS = ['bash', 'zsh', 'fish']

const isInstalled = (shell) => !spawnSync(shell, ['-c', 'exit 0']).error && process.platform !== 'win32'
const unless = (shell) => !isInstalled(shell) && `${shell} is not installed`

describe('shell completion', () => {
  const scripts = {}
  let directory
  let location

  before(async () => {
    directory = scratchDirectory()
    location = copyOfStore((await exampleStore()).location)
    for (const shell of SHELLS) {
      const { code, stdout, stderr } = await waymark(['completion', shell])
      assert.deepEqual([code, stderr], [0, ''])
      scripts[shell] = join(directory, `waymark.${shell}`)
      writeFileSync(scripts[shell], stdout)
    }
    // The scripts call `waymark` from the PATH.
    writeFileSync(join(directory, 'waymark'), `#!/bin/sh\nexec "${process.execPath}" "${COMMAND}" "$@"\n`, {
      mode: 0o755,
    })
  })

  const shell = (program, args, env = {}) =>
    spawnSync(program, args, {
      encoding: 'utf8',
      cwd: directory,
      env: environment({ PATH: `${directory}:${process.env.PATH}`, WAYMARK_STORE: location, ...env }),
    })

  for (const name of SHELLS) {
    it(`prints a script with valid ${name} syntax`, { skip: unless(name) }, () => {
      const { status, stderr } = shell(name, ['-n', scripts[name]])
      assert.deepEqual([status, stderr], [0, ''])
    })
  }

  /** The completions of bash for the last of these words, with the cursor at its end. */
  const completionsOf = (words, env) => {
    const program = `
      source "$1"; shift
      COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMP_LINE="$*"; COMP_POINT=\${#COMP_LINE}
      spec=$(complete -p waymark) || exit 9
      [[ $spec =~ -F\\ ([^ ]+) ]] || exit 8
      "\${BASH_REMATCH[1]}" waymark "\${COMP_WORDS[COMP_CWORD]}" "\${COMP_WORDS[COMP_CWORD-1]}"
      printf '%s\\n' "\${COMPREPLY[@]}"`
    const { status, stdout, stderr } = shell('bash', ['-c', program, 'bash', scripts.bash, ...words], env)
    assert.deepEqual([status, stderr], [0, ''])
    return stdout
      .split('\n')
      .map((word) => word.trim())
      .filter(Boolean)
  }

  describe('in bash', { skip: unless('bash') }, () => {
    it('completes commands', () => {
      assert.deepEqual(completionsOf(['waymark', 're']).toSorted(), ['recover', 'restore'])
      const all = completionsOf(['waymark', ''])
      for (const name of ['ls', 'show', 'verify', 'watch', 'demo', 'completion']) assert.ok(all.includes(name), name)
    })

    it('completes the options of the command only', () => {
      const options = completionsOf(['waymark', 'prune', '--'])
      for (const option of ['--keep-last', '--dry-run', '--json', '--help', '--yes'])
        assert.ok(options.includes(option), option)
      assert.ok(!completionsOf(['waymark', 'ls', '--']).includes('--keep-last'))
      assert.deepEqual(completionsOf(['waymark', 'prune', '--dry']), ['--dry-run'])
    })

    it('completes the sessions of the store', () => {
      const sessions = completionsOf(['waymark', 'show', 'nightly'])
      for (const session of ['nightly-build', 'nightly-report']) {
        assert.ok(
          sessions.some((word) => word.replace(/\/$/, '') === session),
          sessions.join(' '),
        )
      }
    })

    it('completes shells', () => {
      assert.deepEqual(completionsOf(['waymark', 'completion', '']).toSorted(), SHELLS.toSorted())
    })

    it('completes nothing and creates no store if there is none', () => {
      const untouched = snapshotOf(directory)
      const absent = join(directory, 'absent')
      assert.deepEqual(completionsOf(['waymark', 'show', 'nightly'], { WAYMARK_STORE: absent }), [])
      assert.deepEqual(snapshotOf(directory), untouched)
    })

    it('escapes ids with characters that are special in the shell', { skip: noTerminal }, async () => {
      const directoryOfStore = scratchDirectory()
      const store = await openStore(directoryOfStore)
      for (const id of ['my session', 'user@host', 'key=value', 'one:two', '-dash', "it's"]) {
        await checkpointOf(store, makeSession(id), { ...OPTIONS, label: 'before tests' })
      }
      await store.close()
      const env = { PATH: `${directory}:${process.env.PATH}`, WAYMARK_STORE: directoryOfStore, PS1: '> ', HISTFILE: '' }
      const terminal = openTerminal(['bash', '--norc', '--noprofile', '-i'], { env, cwd: directory })
      terminal.type(`source ${scripts.bash}\n`)
      // The typed text before Tab, and the text after it.
      for (const [typed, completed] of [
        ['waymark show "my', 'waymark show "my session"'],
        ["waymark show 'my", "waymark show 'my session'"],
        ['waymark show my', 'waymark show my\\ session'],
        ['waymark show user@', 'waymark show user@host'],
        ['waymark show us', 'waymark show user@host'],
        ['waymark show key=', 'waymark show key=value'],
        ['waymark show one:t', 'waymark show one:two'],
        ['waymark show -- -', 'waymark show -- -dash'],
        ['waymark show "it', 'waymark show "it\'s"'],
        ['waymark diff my\\ session/latest be', 'waymark diff my\\ session/latest before\\ tests'],
        [`waymark copy ${directoryOfStore} ./x --session my`, '--session my\\ session'],
      ]) {
        terminal.type(`${typed}\t`)
        await terminal.shows(() => terminal.text.trimEnd().endsWith(completed))
        // Ctrl-U clears the line.
        terminal.type('\u0015')
      }
      terminal.type('exit\n')
      await terminal.ended
    })

    it('changes nothing in the store', () => {
      const untouched = contentsOfStore(location)
      completionsOf(['waymark', 'show', 'night'])
      assert.deepEqual(contentsOfStore(location), untouched)
    })
  })
})
