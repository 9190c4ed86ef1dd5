import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { describe, it } from 'node:test'

const require = createRequire(import.meta.url)
const { damageLine } = require('../../cli/views/damage.js')
const { toCliError } = require('../../cli/views/error-message.js')
const { jsonDocument } = require('../../cli/views/json-document.js')
const { tasksOf } = require('../../cli/views/stored-state.js')
const { graphRows } = require('../../cli/views/history-graph.js')
const { wrapLines } = require('../../cli/terminal/lines.js')
const { progressOn } = require('../../cli/terminal/progress.js')
const { table } = require('../../cli/terminal/table.js')
const { UNICODE, terminalOf } = require('../../cli/terminal/terminal.js')
const { buildForest, treeRows } = require('../../cli/views/task-tree.js')
const { displayWidth, pad, sanitize, truncate } = require('../../cli/terminal/text-width.js')

/** A terminal with this many columns; without `columns`, a file. */
function screen(columns, env = {}) {
  return terminalOf({ isTTY: columns !== undefined, columns, hasColors: () => true }, env)
}

const plain = (columns) => screen(columns, { NO_COLOR: '1' })

describe('text width', () => {
  it('counts display columns of wide and combining characters', () => {
    const widths = { abc: 3, é: 1, 'e\u0301': 1, 週報: 4, '🚀': 2, 한: 2, '█░': 2, 'a\u200bb': 2, '❤\ufe0f': 2, '': 0 }
    for (const [text, width] of Object.entries(widths)) assert.equal(displayWidth(text), width, JSON.stringify(text))
  })

  it('is respected by truncate() and pad(), and combining marks stay with their character', () => {
    assert.equal(truncate('abcdef', 4), 'abc…')
    assert.equal(truncate('abcd', 4), 'abcd')
    assert.equal(truncate('週報週報', 4), '週…')
    assert.equal(truncate('e\u0301e\u0301e\u0301', 2), 'e\u0301…')
    assert.equal(truncate('abcdef', 4, '...'), 'a...')
    assert.equal(truncate('abc', 0), '')
    assert.equal(pad('週', 4), '週  ')
    assert.equal(pad('7', 3, true), '  7')
  })

  it('is measured on text whose control characters sanitize() has escaped', () => {
    assert.equal(sanitize('a\u001b[31mb\u0007\u009b\u202e\r\n\tc\u007f'), 'a\\x1b[31mb\\x07\\x9b\\u202e c\\x7f')
    assert.equal(sanitize('x\ud800y'), 'x\ufffdy')
  })
})

describe('a JSON document', () => {
  it('escapes control characters, on one line or indented', () => {
    const value = { label: 'a\u009b1m\u202eb\u007f' }
    for (const indent of [0, 2]) {
      const text = jsonDocument(value, indent)
      assert.match(text, /a\\u009b1m\\u202eb\\u007f/)
      assert.deepEqual(JSON.parse(text), value)
    }
    assert.equal(jsonDocument(value, 0).trimEnd().includes('\n'), false)
  })
})

describe('an error message', () => {
  const messageOf = (error) => toCliError(Object.assign(new Error('It failed'), error)).message

  it('advises by the code of the error and of its cause, whatever the text is', () => {
    assert.match(messageOf({ code: 'WAYMARK_CORRUPT' }), /^It failed\. waymark verify shows what is damaged/)
    assert.match(messageOf({ code: 'WAYMARK_IO', cause: { code: 'EACCES' } }), /as the user that owns the store\.$/)
    assert.equal(messageOf({ code: 'WAYMARK_IO', cause: { code: 'ENOSPC' } }), 'It failed.')
  })
})

describe('a line on a damaged item', () => {
  it('has the name of the item instead of its path', () => {
    assert.equal(damageLine({ path: '/s/cp-1.json', error: '/s/cp-1.json is bad' }, 'cp-1'), 'cp-1 is bad')
    assert.equal(damageLine({ path: '/s/cp-1.json', error: 'no checksum' }, 'cp-1'), 'cp-1: no checksum')
    assert.equal(damageLine({ error: 'no checksum' }, 'cp-1'), 'cp-1: no checksum')
  })
})

describe('progress lines', () => {
  it('omit the total while it is unknown', () => {
    let written = ''
    const terminal = Object.assign(plain(), { stream: { write: (text) => (written += text) } })
    const progress = progressOn(terminal, 'Copying')
    progress.show({ phase: 'copy', done: 7, total: 0, bytes: 1000 })
    progress.end()
    assert.equal(written, 'Copying: 7, 1.0 kB\n')
  })
})

describe('a terminal', () => {
  it('uses colours if the stream is one and NO_COLOR is not set', () => {
    assert.equal(screen(80).paint('x', 'red'), '\u001b[31mx\u001b[0m')
    assert.equal(plain(80).paint('x', 'red'), 'x')
    assert.equal(screen(undefined).paint('x', 'red'), 'x')
    assert.equal(screen(80).paint('\u001b[0m', 'red'), '\u001b[31m\\x1b[0m\u001b[0m')
  })

  it('uses ASCII drawing characters if the locale is not UTF-8', () => {
    assert.equal(screen(80, { LANG: 'C' }).glyphs.full, '#')
    assert.equal(screen(80, { LANG: 'C', LC_ALL: 'de_CH.UTF-8' }).glyphs.full, '█')
    assert.equal(screen(80, {}).glyphs.full, '█')
  })
})

describe('a table', () => {
  const columns = [
    { title: 'ID', minWidth: 4 },
    { title: 'NAME', minWidth: 3, dropPriority: 1, dropFirst: true },
    { title: 'SIZE', alignRight: true },
    { title: 'NOTHING' },
  ]
  const rows = [
    ['identifier', '週報 🚀 レポート', '7 kB', ''],
    ['b', { text: 'short', style: 'red' }, '12 MB', ''],
  ]

  it('aligns columns, omits empty ones, and is not truncated in a file', () => {
    assert.deepEqual(table(columns, rows, screen(undefined)), [
      'ID          NAME               SIZE',
      'identifier  週報 🚀 レポート   7 kB',
      'b           short             12 MB',
    ])
  })

  it('never wraps on a narrow terminal', () => {
    for (let width = 1; width <= 60; width += 1) {
      for (const line of table(columns, rows, plain(width))) assert.ok(displayWidth(line) <= width, `${width}: ${line}`)
    }
  })

  it('drops a dropFirst column before it shrinks others', () => {
    assert.deepEqual(table(columns, rows, plain(17)), ['ID           SIZE', 'identifier   7 kB', 'b           12 MB'])
    assert.equal(table(columns, rows, plain(14))[1], 'identi…   7 kB')
  })
})

describe('a long line', () => {
  it('wraps between words, keeps its indent, and ignores escape sequences', () => {
    assert.deepEqual(wrapLines(['  one \u001b[31mtwo\u001b[0m three'], 9), ['  one \u001b[31mtwo\u001b[0m', '  three'])
    assert.deepEqual(wrapLines(['short'], 80), ['short'])
  })
})

/** The graph of entries `[key, parent]`, newest first. */
function graph(...entries) {
  const drawn = graphRows(
    entries.map(([key, parent]) => ({ key, parent })),
    UNICODE,
    () => '●',
  )
  return drawn.map(({ pieces, entry }) => pieces.map(([text]) => text).join('') + (entry ? ` ${entry.key}` : ''))
}

describe('a history graph', () => {
  it('draws one lane for a history without branches', () => {
    assert.deepEqual(graph(['c', 'b'], ['b', 'a'], ['a']), ['● c', '● b', '● a'])
  })

  it('draws one lane per branch; lanes join at the common parent', () => {
    assert.deepEqual(graph(['d', 'a'], ['c', 'b'], ['b', 'a'], ['a']), ['● d', '│ ● c', '│ ● b', '├─╯', '● a'])
  })

  it('draws a join across other lanes', () => {
    assert.deepEqual(graph(['e', 'a'], ['d', 'b'], ['c', 'a'], ['a'], ['b']), [
      '● e',
      '│ ● d',
      '│ │ ● c',
      '├─┼─╯',
      '● │ a',
      '  ● b',
    ])
  })

  it('ends a lane whose parent is missing, and reuses it', () => {
    assert.deepEqual(graph(['b', 'gone'], ['a']), ['● b', '● a'])
  })

  it('ends a lane whose parent is the entry itself or a newer one', () => {
    assert.deepEqual(graph(['c', 'c'], ['b', 'a'], ['a', 'b']), ['● c', '● b', '● a'])
  })
})

/** The rows of a tree as text. */
function tree(tasks, options, rootId) {
  const rows = treeRows(buildForest(tasksOf(tasks), rootId), UNICODE, options)
  return rows.map(({ prefix, node, omitted, isCollapsed }) =>
    omitted ? `${prefix}+${omitted.total}` : `${prefix}${node.id}${isCollapsed ? ` [${node.below.total}]` : ''}`,
  )
}

describe('a task tree', () => {
  const tasks = {
    leaf: { parentId: 'b', status: 'completed' },
    root: { children: ['b', 'a'], status: 'in_progress' },
    a: { parentId: 'root', status: 'pending' },
    b: { parentId: 'root', status: 'completed' },
  }

  it('lists tasks in the order of their parent', () => {
    assert.deepEqual(tree(tasks), ['root', '├─ b', '│  └─ leaf', '└─ a'])
  })

  it('collapses subtrees past the depth limit, and settled ones', () => {
    assert.deepEqual(tree(tasks, { levels: 1 }), ['root [3]'])
    assert.deepEqual(tree(tasks, { collapseSettled: true }), ['root', '├─ b [1]', '└─ a'])
  })

  it('counts the tasks in a collapsed subtree', () => {
    const [row] = treeRows(buildForest(tasksOf(tasks)), UNICODE, { levels: 1 })
    const { total, completed, failed, pending, inProgress, blocked } = row.node.below
    assert.deepEqual([total, completed, failed, pending, inProgress, blocked], [3, 2, 0, 1, 0, 0])
  })

  it('keeps failed tasks among many siblings', () => {
    const many = { root: { status: 'in_progress' } }
    for (let index = 0; index < 50; index += 1) {
      many[`t${index}`] = { parentId: 'root', status: index === 40 ? 'failed' : 'completed' }
    }
    assert.deepEqual(tree(many, { siblings: 3 }), ['root', '├─ t0', '├─ t1', '├─ t40', '└─ +47'])
  })

  it('accepts more siblings than a call takes arguments', () => {
    const many = { root: {} }
    for (let index = 0; index < 200_000; index += 1) many[`t${index}`] = { parentId: 'root' }
    assert.equal(treeRows(buildForest(tasksOf(many)), UNICODE).length, 200_001)
  })

  it('draws each task once, whatever shape the data have', () => {
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

  it('accepts a chain of 100,000 tasks', () => {
    const chain = { t0: {} }
    for (let index = 1; index < 100_000; index += 1)
      chain[`t${index}`] = { parentId: `t${index - 1}`, status: 'failed' }
    const rows = tree(chain)
    assert.equal(rows.length, 100_000)
    assert.ok(rows.at(-1).length < 100)
    assert.deepEqual(tree(chain, { levels: 1 }), ['t0 [99999]'])
  })
})
