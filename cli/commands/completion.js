// Completion scripts for shells.

'use strict'

const { usageError } = require('../cli-error.js')

const SCRIPTS = {
  // Without `mapfile`, which the bash of macOS does not have, and without word splitting, which would expand a `*`.
  bash: `_waymark() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("$line")
  done < <(waymark __complete bash "\${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
  if [ "\${#COMPREPLY[@]}" -eq 0 ]; then
    compopt -o default 2>/dev/null
  elif [[ "\${COMPREPLY[0]}" == */ ]]; then
    compopt -o nospace 2>/dev/null
  fi
}
complete -F _waymark waymark
`,
  zsh: `#compdef waymark
_waymark() {
  local -a candidates
  candidates=("\${(@f)$(waymark __complete zsh $((CURRENT - 1)) "\${(@Q)words}" 2>/dev/null)}")
  if [[ -z "\${candidates[1]}" ]]; then
    _files
  else
    compadd -S '' -- "\${candidates[@]}"
  fi
}
if [ "$funcstack[1]" = "_waymark" ]; then _waymark "$@"; else compdef _waymark waymark; fi
`,
  fish: `function __waymark_complete
  set -l words (commandline -opc) (commandline -ct)
  waymark __complete fish (math (count $words) - 1) $words 2>/dev/null
end
complete -c waymark -a '(__waymark_complete)'
`,
}

module.exports = {
  name: 'completion',
  positionals: [{ name: 'shell', values: Object.keys(SCRIPTS), description: 'bash, zsh or fish.' }],
  options: [],
  hasNoStore: true,
  notes: [
    'For bash, add this line to ~/.bashrc: source <(waymark completion bash). For zsh, add this line to ~/.zshrc, after compinit: ' +
      'source <(waymark completion zsh). For fish: waymark completion fish > ~/.config/fish/completions/waymark.fish.',
    'Sessions and checkpoints are completed from the store of an earlier --store, of WAYMARK_STORE, or from the default store; ' +
      'a location as the last argument is not known yet.',
  ],
  jsonResult: '{ shell, script }',
  examples: ['waymark completion bash'],
  run,
}

async function run({ args: { shell } }) {
  if (!Object.hasOwn(SCRIPTS, shell)) {
    throw usageError(`There is no completion script for ${JSON.stringify(shell)}: choose bash, zsh or fish.`)
  }
  return { json: { shell, script: SCRIPTS[shell] }, text: () => SCRIPTS[shell].trimEnd().split('\n') }
}
