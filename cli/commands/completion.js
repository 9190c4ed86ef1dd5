// Scripts that let a shell complete the command.

'use strict'

const { wrongUse } = require('../complaint.js')

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
  local -a found
  found=("\${(@f)$(waymark __complete zsh $((CURRENT - 1)) "\${(@Q)words}" 2>/dev/null)}")
  if [[ -z "\${found[1]}" ]]; then
    _files
  else
    compadd -S '' -- "\${found[@]}"
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
  positionals: [{ name: 'shell', meaning: 'bash, zsh or fish.' }],
  options: [],
  hasNoStore: true,
  notes: [
    'For bash, put this into ~/.bashrc: source <(waymark completion bash). For zsh, put this into ~/.zshrc, after compinit: ' +
      'source <(waymark completion zsh). For fish: waymark completion fish > ~/.config/fish/completions/waymark.fish.',
    'Sessions and checkpoints are those of the store that --store names before the word, of WAYMARK_STORE, or of the default; a ' +
      'location as the last word comes too late for that.',
  ],
  document: '{ shell, script }',
  examples: ['waymark completion bash'],
  run,
}

async function run({ words: { shell } }) {
  if (!Object.hasOwn(SCRIPTS, shell)) {
    throw wrongUse(`There is no completion for ${JSON.stringify(shell)}: it is bash, zsh or fish.`)
  }
  return { json: { shell, script: SCRIPTS[shell] }, text: () => SCRIPTS[shell].trimEnd().split('\n') }
}
