// Two plots as SVG, drawn by hand: both axes are logarithmic, and colours do for light and dark pages.

const WIDTH = 860
const HEIGHT = 360
const TOP = 36
const BOTTOM = 46
const PLOT = 260
const COLOURS = ['#d9480f', '#868e96', '#1c7ed6', '#2b8a3e', '#ae3ec9', '#0c8599', '#e67700', '#5f3dc4']

/** `panels` are two of `{ title, axis, series: [{ name, points: [[x, y], …] }] }`. */
export function plot(panels) {
  const names = [...new Set(panels.flatMap(({ series }) => series.map(({ name }) => name)))]
  const colourOf = (name) => COLOURS[names.indexOf(name) % COLOURS.length]
  const drawn = panels.map((panel, index) => drawPanel(panel, 56 + index * (PLOT + 60), colourOf))
  const legend = names.map((name, index) => {
    const y = TOP + 14 + index * 20
    const x = 56 + 2 * (PLOT + 60) - 20
    return `<circle cx="${x}" cy="${y - 4}" r="4" fill="${colourOf(name)}"/><text x="${x + 10}" y="${y}">${escape(name)}</text>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">
<style>text{fill:#495057}.grid{stroke:#adb5bd;stroke-opacity:.35}@media(prefers-color-scheme:dark){text{fill:#ced4da}}</style>
${[...drawn, ...legend].join('\n')}
</svg>
`
}

function drawPanel({ title, axis, series }, left, colourOf) {
  const points = series.flatMap((one) => one.points)
  const x = scale(
    points.map(([value]) => value),
    left,
    left + PLOT,
  )
  const y = scale(
    points.map(([, value]) => value),
    HEIGHT - BOTTOM,
    TOP,
  )
  const columns = [...new Set(points.map(([value]) => value))].map(
    (value) =>
      `<line class="grid" x1="${x(value)}" x2="${x(value)}" y1="${TOP}" y2="${HEIGHT - BOTTOM}"/><text x="${x(value)}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${value.toLocaleString('en')}</text>`,
  )
  const rows = powersOfTen(points.map(([, value]) => value)).map(
    (value) =>
      `<line class="grid" x1="${left}" x2="${left + PLOT}" y1="${y(value)}" y2="${y(value)}"/><text x="${left - 6}" y="${y(value) + 4}" text-anchor="end">${value.toLocaleString('en')}</text>`,
  )
  // The first is the one that it is all about: thicker, and drawn over the others.
  const lines = series.map(({ name, points: own }, index) => {
    const path = own.map(([at, value]) => `${x(at)},${y(value)}`).join(' ')
    const dots = own.map(([at, value]) => `<circle cx="${x(at)}" cy="${y(value)}" r="3" fill="${colourOf(name)}"/>`)
    const width = index === 0 ? 3.5 : 1.5
    return `<polyline fill="none" points="${path}" stroke="${colourOf(name)}" stroke-width="${width}"/>${dots.join('')}`
  })
  const words = [
    `<text x="${left}" y="20" font-size="14">${escape(title)}</text>`,
    `<text x="${left + PLOT / 2}" y="${HEIGHT - 8}" text-anchor="middle">${escape(axis)}</text>`,
  ]
  return [...columns, ...rows, ...lines.toReversed(), ...words].join('\n')
}

/** Zero is drawn a step below the smallest value. */
function scale(values, from, to) {
  const position = (value) => Math.log10(Math.max(value, 0.5))
  const [low, high] = [Math.min(...values.map(position)), Math.max(...values.map(position))]
  return (value) => Math.round((from + ((position(value) - low) / (high - low || 1)) * (to - from)) * 10) / 10
}

function powersOfTen(values) {
  const [low, high] = [Math.log10(Math.max(Math.min(...values), 0.5)), Math.log10(Math.max(...values))]
  return Array.from({ length: 8 }, (_, index) => 10 ** index).filter(
    (value) => Math.log10(value) >= low && Math.log10(value) <= high,
  )
}

function escape(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
