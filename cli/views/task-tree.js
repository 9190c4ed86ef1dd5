// A task tree as lines: drawn as far as somebody wants to see, whatever shape the data are in.
//
// Stored data may have cycles, parents that are gone, and chains of thousands: every task is visited once, in loops and not in
// calls, and is drawn in one place or counted in one fold.

'use strict'

const { countsOf } = require('../state.js')

/** Deeper ones are drawn no further to the right: a chain of thousands would be mostly indentation. */
const DEEPEST_INDENT = 24

/** Those that people look for come before those that are done or have not begun. */
const SETTLED = new Set(['completed', 'pending', 'queued', 'cancelled'])

/**
 * Each task in one place of a forest: `{ roots, nodes }`, where a node is `{ id, task, children, inside }`; `inside` counts the tasks
 * below it. The parent that a task names counts; if it names none, who lists it as a child.
 */
function forestOf(tasks, rootId) {
  const nodes = new Map([...tasks].map(([id, task]) => [id, { id, task, children: [], isPlaced: false }]))
  const parents = parentsOf(tasks)
  for (const id of inListedOrder(tasks, parents)) nodes.get(parents.get(id)).children.push(nodes.get(id))
  const roots = [...nodes.values()].filter(({ id }) => !parents.has(id))
  const first = roots.findIndex(({ id }) => id === rootId)
  if (first > 0) roots.unshift(...roots.splice(first, 1))
  const order = []
  const forest = []
  // What no root leads to is part of a cycle, which is cut where it is met first.
  for (const root of [...roots, ...nodes.values()]) {
    if (root.isPlaced) continue
    forest.push(root)
    place(root, order)
  }
  count(order)
  return { roots: forest, nodes }
}

function parentsOf(tasks) {
  const parents = new Map()
  for (const [id, { parentId }] of tasks) {
    if (typeof parentId === 'string' && parentId !== id && tasks.has(parentId)) parents.set(id, parentId)
  }
  for (const [id, { children }] of tasks) {
    for (const child of listOf(children)) {
      const namesNone = tasks.has(child) && !parents.has(child) && (tasks.get(child).parentId ?? null) === null
      if (namesNone && child !== id) parents.set(child, id)
    }
  }
  return parents
}

/** The ids that have a parent: in the order of its list, then those that it does not list. */
function inListedOrder(tasks, parents) {
  const ordered = new Set()
  for (const [id, { children }] of tasks) {
    for (const child of listOf(children)) if (parents.get(child) === id) ordered.add(child)
  }
  for (const id of parents.keys()) ordered.add(id)
  return ordered
}

function listOf(value) {
  return Array.isArray(value) ? value : []
}

/** Walks down from a root, and drops the ways that lead back to what was met before. */
function place(root, order) {
  const open = [root]
  root.isPlaced = true
  while (open.length > 0) {
    const node = open.pop()
    order.push(node)
    node.children = node.children.filter((child) => {
      const isNew = !child.isPlaced
      child.isPlaced = true
      return isNew
    })
    for (const child of node.children) open.push(child)
  }
}

/** From the leaves upwards, since parents come before their children in `order`. */
function count(order) {
  for (const node of order.toReversed()) {
    const inside = countsOf(new Map())
    for (const child of node.children) {
      const own = countsOf(new Map([[child.id, child.task]]))
      for (const key of Object.keys(inside)) inside[key] += own[key] + child.inside[key]
    }
    node.inside = inside
  }
}

/**
 * The rows of a forest: `{ prefix, node, isFolded }`, or `{ prefix, left }` for siblings that are not shown, counted. So many levels
 * are shown, and so many of one parent's children; with `foldsQuiet`, nothing below what is all done or not begun.
 */
function rowsOf({ roots }, glyphs, { levels = Infinity, siblings = Infinity, foldsQuiet = false } = {}) {
  const { vertical, branch, last, horizontal } = glyphs
  const rows = []
  const open = entriesOf(roots, siblings, { prefix: '', depth: 0 }).toReversed()
  while (open.length > 0) {
    const { node, left, prefix, depth, isLast } = open.pop()
    const isTop = depth === 0
    const own = isTop ? prefix : `${prefix}${isLast ? last : branch}${horizontal} `
    if (left) {
      rows.push({ prefix: own, left })
      continue
    }
    const isFolded = node.children.length > 0 && (depth + 1 >= levels || (foldsQuiet && !isTop && isQuiet(node)))
    rows.push({ prefix: own, node, isFolded })
    if (isFolded) continue
    const indent = isTop || depth > DEEPEST_INDENT ? prefix : `${prefix}${isLast ? ' ' : vertical}  `
    const inner = entriesOf(node.children, siblings, { prefix: indent, depth: depth + 1 })
    for (const entry of inner.toReversed()) open.push(entry)
  }
  return rows
}

function entriesOf(nodes, siblings, where) {
  const shown = nodes.length > siblings ? chosen(nodes, siblings) : nodes
  const entries = shown.map((node) => ({ ...where, node, isLast: false }))
  if (shown.length < nodes.length) {
    const isShown = new Set(shown)
    entries.push({ ...where, left: totalOf(nodes.filter((node) => !isShown.has(node))), isLast: false })
  }
  if (entries.length > 0) entries.at(-1).isLast = true
  return entries
}

function chosen(nodes, atMost) {
  const isTelling = ({ task, inside }) =>
    !SETTLED.has(task.status) || inside.failed > 0 || inside.inProgress > 0 || inside.blocked > 0
  const telling = nodes.filter(isTelling).slice(0, atMost)
  const others = nodes.filter((node) => !isTelling(node)).slice(0, atMost - telling.length)
  const wanted = new Set([...telling, ...others])
  return nodes.filter((node) => wanted.has(node))
}

function isQuiet({ task, inside }) {
  const { total, completed, pending } = inside
  return task.status === 'completed' ? completed === total : task.status === 'pending' && pending === total
}

/** The tasks of these nodes, and of all below them. */
function totalOf(nodes) {
  const total = countsOf(new Map(nodes.map(({ id, task }) => [id, task])))
  for (const { inside } of nodes) for (const key of Object.keys(total)) total[key] += inside[key]
  return total
}

module.exports = { forestOf, rowsOf }
