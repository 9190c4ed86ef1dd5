// The peak memory of a checkpoint of 16 MB, beyond the state itself.

import { fork } from 'node:child_process'

import { clear, isReached, newLocation, summary } from '../measure.mjs'

export async function memory() {
  const lines = []
  for (const ascii of [true, false]) {
    const name = `peak memory of createCheckpoint, 10,000 tasks, ${ascii ? 'ASCII' : 'mixed text'}, against the text`
    if (process.platform !== 'linux') {
      lines.push({ name, missing: 'the peak is read from /proc, which only Linux has' })
      continue
    }
    const location = newLocation()
    const child = fork(new URL('../peak.mjs', import.meta.url), [location, ascii], { execArgv: ['--expose-gc'] })
    const { peaks, stringifyPeaks, textBytes, stringBytes } = await new Promise((resolve, reject) => {
      child.once('message', resolve)
      child.once('exit', (code) => reject(new Error(`peak.mjs ended with ${code}`)))
    })
    clear(location)
    const inMb = (bytes) => bytes / 1e6
    const [ours, text] = [summary(peaks.map(inMb)), summary([inMb(textBytes)])]
    const ratio = ours.median / text.median
    const target = { atMost: 3 }
    const share = (stringBytes / textBytes).toFixed(1)
    const note = `the engine's own string is ${share} × the text as UTF-8`
    lines.push({ name, unit: 'MB', ours, theirs: text, ratio, target, reached: isReached(ratio, target), note })
    const stringify = summary(stringifyPeaks.map(inMb))
    const beside = `${name.replace('the text', 'that of one JSON.stringify alone')}`
    lines.push({ name: beside, unit: 'MB', ours, theirs: stringify, ratio: ours.median / stringify.median, target: {} })
  }
  return lines
}
