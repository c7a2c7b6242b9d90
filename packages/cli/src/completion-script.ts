// Shell glue: each shell asks `gpvectl completion words -- …` what may come next.

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

export function completionScript(shell: Shell): string {
  return SCRIPTS[shell];
}

const SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: `# gpvectl completion for bash. Use: source <(gpvectl completion bash)
_gpvectl() {
  local IFS=$'\\n'
  COMPREPLY=($(gpvectl completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _gpvectl gpvectl
`,
  zsh: `#compdef gpvectl
# gpvectl completion for zsh. Use: source <(gpvectl completion zsh)
_gpvectl() {
  local -a candidates
  candidates=(\${(f)"$(gpvectl completion words -- "\${(@)words[2,$CURRENT]}" 2>/dev/null)"})
  if (( \${#candidates} )); then compadd -- $candidates; else _files; fi
}
compdef _gpvectl gpvectl
`,
  fish: `# gpvectl completion for fish. Use: gpvectl completion fish | source
function __gpvectl_words
  set -l words (commandline -opc) (commandline -ct)
  gpvectl completion words -- $words[2..-1] 2>/dev/null
end
complete -c gpvectl -f -a '(__gpvectl_words)'
`,
};
