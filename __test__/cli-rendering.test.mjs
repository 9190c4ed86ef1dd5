import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { describe, it } from 'node:test'

const require = createRequire(import.meta.url)
const { documentOf } = require('../cli/document.js')
const { tasksOf } = require('../cli/state.js')
const { graphOf } = require('../cli/terminal/graph.js')
const { foldedAll } = require('../cli/terminal/lines.js')
const { progressOn } = require('../cli/terminal/progress.js')
const { table } = require('../cli/terminal/table.js')
const { UNICODE, terminalOf } = require('../cli/terminal/terminal.js')
const { forestOf, rowsOf } = require('../cli/terminal/tree.js')
const { clean, clip, pad, widthOf } = require('../cli/terminal/width.js')

/** A terminal of so many columns; without any, a file. */
function screen(columns, env = {}) {
  return terminalOf({ isTTY: columns !== undefined, columns, hasColors: () => true }, env)
}

const plain = (columns) => screen(columns, { NO_COLOR: '1' })

describe('the width of a text', () => {
  it('is what a terminal shows of it', () => {
    const widths = { abc: 3, é: 1, 'e\u0301': 1, 週報: 4, '🚀': 2, 한: 2, '█░': 2, 'a\u200bb': 2, '❤\ufe0f': 2, '': 0 }
    for (const [text, width] of Object.entries(widths)) assert.equal(widthOf(text), width, JSON.stringify(text))
  })

  it('is kept when it is shortened, without tearing letters from their marks', () => {
    assert.equal(clip('abcdef', 4), 'abc…')
    assert.equal(clip('abcd', 4), 'abcd')
    assert.equal(clip('週報週報', 4), '週…')
    assert.equal(clip('e\u0301e\u0301e\u0301', 2), 'e\u0301…')
    assert.equal(clip('abcdef', 4, '...'), 'a...')
    assert.equal(clip('abc', 0), '')
    assert.equal(pad('週', 4), '週  ')
    assert.equal(pad('7', 3, true), '  7')
  })

  it('has nothing in it that a terminal obeys', () => {
    assert.equal(clean('a\u001b[31mb\u0007\u009b\u202e\r\n\tc\u007f'), 'a\\x1b[31mb\\x07\\x9b\\u202e c\\x7f')
    assert.equal(clean('x\ud800y'), 'x\ufffdy')
  })
})

describe('a document', () => {
  it('has nothing in it that a terminal obeys, in a line or in many', () => {
    const value = { label: 'a\u009b1m\u202eb\u007f' }
    for (const indent of [0, 2]) {
      const text = documentOf(value, indent)
      assert.match(text, /a\\u009b1m\\u202eb\\u007f/)
      assert.deepEqual(JSON.parse(text), value)
    }
    assert.equal(documentOf(value, 0).trimEnd().includes('\n'), false)
  })
})

describe('progress', () => {
  it('names no whole for as long as nobody knows it', () => {
    let written = ''
    const terminal = Object.assign(plain(), { stream: { write: (text) => (written += text) } })
    const progress = progressOn(terminal, 'Copying')
    progress.show({ phase: 'copy', done: 7, total: 0, bytes: 1000 })
    progress.end()
    assert.equal(written, 'Copying: 7, 1.0 kB\n')
  })
})

describe('colours', () => {
  it('are for terminals that have them, and for nobody with NO_COLOR', () => {
    assert.equal(screen(80).paint('x', 'red'), '\u001b[31mx\u001b[0m')
    assert.equal(plain(80).paint('x', 'red'), 'x')
    assert.equal(screen(undefined).paint('x', 'red'), 'x')
    assert.equal(screen(80).paint('\u001b[0m', 'red'), '\u001b[31m\\x1b[0m\u001b[0m')
  })

  it('and drawing characters are plain where the locale is', () => {
    assert.equal(screen(80, { LANG: 'C' }).glyphs.full, '#')
    assert.equal(screen(80, { LANG: 'C', LC_ALL: 'de_CH.UTF-8' }).glyphs.full, '█')
    assert.equal(screen(80, {}).glyphs.full, '█')
  })
})

describe('a table', () => {
  const columns = [
    { title: 'ID', least: 4 },
    { title: 'NAME', least: 3, spare: 1, isLuxury: true },
    { title: 'SIZE', right: true },
    { title: 'NOTHING' },
  ]
  const rows = [
    ['identifier', '週報 🚀 レポート', '7 kB', ''],
    ['b', { text: 'short', style: 'red' }, '12 MB', ''],
  ]

  it('aligns, leaves out what is empty, and is not shortened in a file', () => {
    assert.deepEqual(table(columns, rows, screen(undefined)), [
      'ID          NAME               SIZE',
      'identifier  週報 🚀 レポート   7 kB',
      'b           short             12 MB',
    ])
  })

  it('never wraps, however narrow the terminal is', () => {
    for (let width = 1; width <= 60; width += 1) {
      for (const line of table(columns, rows, plain(width))) assert.ok(widthOf(line) <= width, `${width}: ${line}`)
    }
  })

  it('lets go of a luxury before anything else is shortened', () => {
    assert.deepEqual(table(columns, rows, plain(17)), ['ID           SIZE', 'identifier   7 kB', 'b           12 MB'])
    assert.equal(table(columns, rows, plain(14))[1], 'identi…   7 kB')
  })
})

describe('a sentence', () => {
  it('is broken between words, with its indent, whatever its colours', () => {
    assert.deepEqual(foldedAll(['  one \u001b[31mtwo\u001b[0m three'], 9), ['  one \u001b[31mtwo\u001b[0m', '  three'])
    assert.deepEqual(foldedAll(['short'], 80), ['short'])
  })
})

/** The graph of entries `[key, parent]`, newest first. */
function graph(...entries) {
  const drawn = graphOf(
    entries.map(([key, parent]) => ({ key, parent })),
    UNICODE,
    () => '●',
  )
  return drawn.map(({ pieces, entry }) => pieces.map(([text]) => text).join('') + (entry ? ` ${entry.key}` : ''))
}

describe('a history', () => {
  it('without branches is one line', () => {
    assert.deepEqual(graph(['c', 'b'], ['b', 'a'], ['a']), ['● c', '● b', '● a'])
  })

  it('has a lane for each branch, which join where they began', () => {
    assert.deepEqual(graph(['d', 'a'], ['c', 'b'], ['b', 'a'], ['a']), ['● d', '│ ● c', '│ ● b', '├─╯', '● a'])
  })

  it('draws lanes across others', () => {
    assert.deepEqual(graph(['e', 'a'], ['d', 'b'], ['c', 'a'], ['a'], ['b']), [
      '● e',
      '│ ● d',
      '│ │ ● c',
      '├─┼─╯',
      '● │ a',
      '  ● b',
    ])
  })

  it('ends a lane whose parent is gone, and reuses its place', () => {
    assert.deepEqual(graph(['b', 'gone'], ['a']), ['● b', '● a'])
  })

  it('that names itself, or something newer, as its parent comes to an end', () => {
    assert.deepEqual(graph(['c', 'c'], ['b', 'a'], ['a', 'b']), ['● c', '● b', '● a'])
  })
})

/** The rows of a tree, as texts. */
function tree(tasks, options, rootId) {
  const rows = rowsOf(forestOf(tasksOf(tasks), rootId), UNICODE, options)
  return rows.map(({ prefix, node, left, isFolded }) =>
    left ? `${prefix}+${left.total}` : `${prefix}${node.id}${isFolded ? ` [${node.inside.total}]` : ''}`,
  )
}

describe('a task tree', () => {
  const tasks = {
    leaf: { parentId: 'b', status: 'completed' },
    root: { children: ['b', 'a'], status: 'in_progress' },
    a: { parentId: 'root', status: 'pending' },
    b: { parentId: 'root', status: 'completed' },
  }

  it('is drawn in the order of its children', () => {
    assert.deepEqual(tree(tasks), ['root', '├─ b', '│  └─ leaf', '└─ a'])
  })

  it('is folded past a depth, and where all is done', () => {
    assert.deepEqual(tree(tasks, { levels: 1 }), ['root [3]'])
    assert.deepEqual(tree(tasks, { foldsQuiet: true }), ['root', '├─ b [1]', '└─ a'])
  })

  it('counts what a fold hides', () => {
    const [row] = rowsOf(forestOf(tasksOf(tasks)), UNICODE, { levels: 1 })
    const { total, completed, failed, pending, inProgress, blocked } = row.node.inside
    assert.deepEqual([total, completed, failed, pending, inProgress, blocked], [3, 2, 0, 1, 0, 0])
  })

  it('shows of many siblings those that people look for', () => {
    const many = { root: { status: 'in_progress' } }
    for (let index = 0; index < 50; index += 1) {
      many[`t${index}`] = { parentId: 'root', status: index === 40 ? 'failed' : 'completed' }
    }
    assert.deepEqual(tree(many, { siblings: 3 }), ['root', '├─ t0', '├─ t1', '├─ t40', '└─ +47'])
  })

  it('may have more siblings than a call takes arguments', () => {
    const many = { root: {} }
    for (let index = 0; index < 200_000; index += 1) many[`t${index}`] = { parentId: 'root' }
    assert.equal(rowsOf(forestOf(tasksOf(many)), UNICODE).length, 200_001)
  })

  it('of any shape shows each task once', () => {
    const hostile = {
      loop1: { parentId: 'loop2', children: ['loop2'] },
      loop2: { parentId: 'loop1', children: ['loop1'] },
      self: { parentId: 'self', children: ['self'] },
      orphan: { parentId: 'gone', children: ['missing', null, 7] },
      text: 'no task',
      nothing: null,
      constructor: { parentId: 'orphan', children: 'no list' },
    }
    const rows = tree(hostile)
    assert.deepEqual(rows.toSorted(), ['loop1', 'orphan', 'self', '└─ constructor', '└─ loop2'].toSorted())
  })

  it('may be a chain of a hundred thousand', () => {
    const chain = { t0: {} }
    for (let index = 1; index < 100_000; index += 1)
      chain[`t${index}`] = { parentId: `t${index - 1}`, status: 'failed' }
    const rows = tree(chain)
    assert.equal(rows.length, 100_000)
    assert.ok(rows.at(-1).length < 100)
    assert.deepEqual(tree(chain, { levels: 1 }), ['t0 [99999]'])
  })
})
