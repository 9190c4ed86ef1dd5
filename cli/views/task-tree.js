// Draws a task tree of any shape, up to given limits.
//
// Stored data may contain cycles, missing parents, and chains of thousands. Every task is visited once, without recursion, and is
// either drawn once or counted in one collapsed row.

'use strict'

const { countTasks } = require('./stored-state.js')

/** Deeper tasks are not indented further: a chain of thousands would be mostly indentation. */
const MAX_INDENT = 24

/** Where siblings are left out, tasks with other statuses are kept first. */
const SETTLED = new Set(['completed', 'pending', 'queued', 'cancelled'])

/**
 * Arranges tasks as a forest: `{ roots, nodes }`, where a node is `{ id, task, children, below }`; `below` counts its descendants.
 * The parent of a task is its `parentId`; without one, the task that lists it as a child.
 */
function buildForest(tasks, rootId) {
  const nodes = new Map([...tasks].map(([id, task]) => [id, { id, task, children: [], isVisited: false }]))
  const parents = parentsOf(tasks)
  for (const id of inListedOrder(tasks, parents)) nodes.get(parents.get(id)).children.push(nodes.get(id))
  const roots = [...nodes.values()].filter(({ id }) => !parents.has(id))
  const first = roots.findIndex(({ id }) => id === rootId)
  if (first > 0) roots.unshift(...roots.splice(first, 1))
  const order = []
  const forest = []
  // A task that no root leads to is part of a cycle, which is cut at its first task.
  for (const root of [...roots, ...nodes.values()]) {
    if (root.isVisited) continue
    forest.push(root)
    visit(root, order)
  }
  countBelow(order)
  return { roots: forest, nodes }
}

function parentsOf(tasks) {
  const parents = new Map()
  for (const [id, { parentId }] of tasks) {
    if (typeof parentId === 'string' && parentId !== id && tasks.has(parentId)) parents.set(id, parentId)
  }
  for (const [id, { children }] of tasks) {
    for (const child of asArray(children)) {
      const hasNoParent = tasks.has(child) && !parents.has(child) && (tasks.get(child).parentId ?? null) === null
      if (hasNoParent && child !== id) parents.set(child, id)
    }
  }
  return parents
}

/** The ids with a parent: first in the order of the parent's list, then those that it does not list. */
function inListedOrder(tasks, parents) {
  const ordered = new Set()
  for (const [id, { children }] of tasks) {
    for (const child of asArray(children)) if (parents.get(child) === id) ordered.add(child)
  }
  for (const id of parents.keys()) ordered.add(id)
  return ordered
}

function asArray(value) {
  return Array.isArray(value) ? value : []
}

/** Visits the tasks below a root, and drops edges to tasks that were visited before. */
function visit(root, order) {
  const stack = [root]
  root.isVisited = true
  while (stack.length > 0) {
    const node = stack.pop()
    order.push(node)
    node.children = node.children.filter((child) => {
      const isNew = !child.isVisited
      child.isVisited = true
      return isNew
    })
    for (const child of node.children) stack.push(child)
  }
}

/** Counts descendants from the leaves upwards; in `order`, parents precede their children. */
function countBelow(order) {
  for (const node of order.toReversed()) {
    const below = countTasks(new Map())
    for (const child of node.children) {
      const own = countTasks(new Map([[child.id, child.task]]))
      for (const key of Object.keys(below)) below[key] += own[key] + child.below[key]
    }
    node.below = below
  }
}

/**
 * The rows of a forest: `{ prefix, node, isCollapsed }`, or `{ prefix, omitted }` with the counts of siblings that are not shown.
 * At most `levels` levels and `siblings` children of a task are shown; with `collapseSettled`, a task is collapsed if it and all
 * its descendants are completed, or all pending.
 */
function treeRows({ roots }, glyphs, { levels = Infinity, siblings = Infinity, collapseSettled = false } = {}) {
  const { vertical, branch, last, horizontal } = glyphs
  const rows = []
  const stack = entriesOf(roots, siblings, { prefix: '', depth: 0 }).toReversed()
  while (stack.length > 0) {
    const { node, omitted, prefix, depth, isLast } = stack.pop()
    const isTop = depth === 0
    const own = isTop ? prefix : `${prefix}${isLast ? last : branch}${horizontal} `
    if (omitted) {
      rows.push({ prefix: own, omitted })
      continue
    }
    const isCollapsed =
      node.children.length > 0 && (depth + 1 >= levels || (collapseSettled && !isTop && isSettled(node)))
    rows.push({ prefix: own, node, isCollapsed })
    if (isCollapsed) continue
    const indent = isTop || depth > MAX_INDENT ? prefix : `${prefix}${isLast ? ' ' : vertical}  `
    const inner = entriesOf(node.children, siblings, { prefix: indent, depth: depth + 1 })
    for (const entry of inner.toReversed()) stack.push(entry)
  }
  return rows
}

function entriesOf(nodes, siblings, where) {
  const shown = nodes.length > siblings ? selectSiblings(nodes, siblings) : nodes
  const entries = shown.map((node) => ({ ...where, node, isLast: false }))
  if (shown.length < nodes.length) {
    const isShown = new Set(shown)
    entries.push({ ...where, omitted: totalOf(nodes.filter((node) => !isShown.has(node))), isLast: false })
  }
  if (entries.length > 0) entries.at(-1).isLast = true
  return entries
}

function selectSiblings(nodes, limit) {
  const isNotable = ({ task, below }) =>
    !SETTLED.has(task.status) || below.failed > 0 || below.inProgress > 0 || below.blocked > 0
  const notable = nodes.filter(isNotable).slice(0, limit)
  const others = nodes.filter((node) => !isNotable(node)).slice(0, limit - notable.length)
  const wanted = new Set([...notable, ...others])
  return nodes.filter((node) => wanted.has(node))
}

function isSettled({ task, below }) {
  const { total, completed, pending } = below
  return task.status === 'completed' ? completed === total : task.status === 'pending' && pending === total
}

/** Counts the tasks of these nodes and of all their descendants. */
function totalOf(nodes) {
  const total = countTasks(new Map(nodes.map(({ id, task }) => [id, task])))
  for (const { below } of nodes) for (const key of Object.keys(total)) total[key] += below[key]
  return total
}

module.exports = { buildForest, treeRows }
