// Suggests names for a misspelled word.

'use strict'

/** The candidates within the tolerated edit distance of a word, closest first. */
function closestMatches(word, candidates, maxMatches = 3) {
  const wanted = word.toLowerCase()
  const tolerance = Math.max(1, Math.floor(wanted.length / 3))
  return candidates
    .map((name) => ({ name, distance: editDistance(wanted, name.toLowerCase(), tolerance) }))
    .filter(({ distance }) => distance <= tolerance)
    .toSorted((a, b) => a.distance - b.distance)
    .slice(0, maxMatches)
    .map(({ name }) => name)
}

/** The Damerau–Levenshtein distance (insertions, deletions, substitutions, swaps of neighbours). */
function editDistance(a, b, limit) {
  if (Math.abs(a.length - b.length) > limit) return limit + 1
  let beforeLast = []
  let last = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i]
    for (let j = 1; j <= b.length; j += 1) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + cost)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        row[j] = Math.min(row[j], beforeLast[j - 2] + 1)
    }
    beforeLast = last
    last = row
  }
  return last[b.length]
}

/** ` Did you mean …?` with a leading space, or an empty string. */
function didYouMean(word, candidates) {
  const names = closestMatches(word, candidates)
  return names.length > 0 ? ` Did you mean ${names.join(' or ')}?` : ''
}

module.exports = { closestMatches, didYouMean }
