// The figures as Markdown tables, for the documents and the terminal.

const VERDICTS = new Map([
  [true, 'reached'],
  [false, '**missed**'],
  [undefined, ''],
])

export function linesTable(lines) {
  const rows = lines.map(({ name, missing, ours, theirs, unit, ratio, target, reached, note }) => {
    if (missing) return [name, '', '', '', `not measured: ${missing}`]
    const verdict = [goal(target), VERDICTS.get(reached)].filter(Boolean).join(', ')
    return [
      note ? `${name} (${note})` : name,
      withSpread(ours, unit),
      withSpread(theirs, unit),
      `${figure(ratio)} ×`,
      verdict,
    ]
  })
  return markdown(['what', 'ours', 'theirs', 'ratio', 'goal'], rows)
}

export function contendersTable({ table, missing }) {
  const sizes = Object.keys(table[0].costs).map(Number)
  const head = ['one durable checkpoint, ms', ...sizes.map((size) => `${size.toLocaleString('en')} tasks`)]
  const rows = table.map(({ name, version, costs }) => [
    name === 'plain JavaScript' ? `${name}, not durable` : [name, version].filter(Boolean).join(' '),
    ...sizes.map((size) => `${figure(costs[size].median)} (${figure(costs[size].low)}–${figure(costs[size].high)})`),
  ])
  for (const { name, reason } of missing) rows.push([name, `not measured: ${reason}`, ...sizes.slice(1).map(() => '')])
  return markdown(head, rows)
}

/** The throughput of a server: our side of the lines with concurrent writers. */
export function scaleTable(lines) {
  const rows = new Map()
  for (const { at, ours } of lines) {
    if (at?.command !== 'writers') continue
    const point = `${at.tasks} ${at.writers}`
    if (!rows.has(point)) rows.set(point, [at.tasks, at.writers])
    rows.get(point).push(figure(ours.median))
  }
  return markdown(
    ['tasks', 'writers at once', 'checkpoints a second', 'ms, median', 'ms, 95th percentile'],
    [...rows.values()],
  )
}

/** The documents, by name, with the tables of these results between their markers. */
export function withTables(documents, { machine, when, lines, sizes }) {
  const tablesOf = {
    'README.md': {
      'bench-lines': linesTable(lines),
      'bench-everybody': contendersTable(sizes),
      'bench-machine': `${machine}, ${when.slice(0, 10)}`,
    },
    'docs/architecture.md': { 'bench-scale': scaleTable(lines) },
  }
  const filled = Object.entries(tablesOf).map(([document, tables]) => [
    document,
    Object.entries(tables).reduce((text, [name, content]) => {
      const section = new RegExp(`(<!-- ${name} -->\n)[^]*?(<!-- /${name} -->)`)
      if (!section.test(text)) throw new Error(`${document} has no section ${name}`)
      return text.replace(section, (_, start, end) => `${start}${content}\n${end}`)
    }, documents[document]),
  ])
  return Object.fromEntries(filled)
}

function goal({ atLeast, atMost }) {
  if (atLeast !== undefined) return atLeast === 1 ? 'ahead' : `≥ ${atLeast.toLocaleString('en')} ×`
  if (atMost !== undefined) return `≤ ${atMost} ×`
  return ''
}

function withSpread({ median, low, high }, unit) {
  const spread = low === high ? '' : ` (${figure(low)}–${figure(high)})`
  return `${figure(median)}${spread} ${unit}`
}

export function figure(value) {
  if (value >= 100) return Math.round(value).toLocaleString('en')
  return value >= 10 ? value.toFixed(1) : value.toFixed(2)
}

function markdown(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}
