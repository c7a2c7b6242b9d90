// PVE patterns are Perl regular expressions, always checked against the whole value.

const compiled = new Map<string, RegExp>();

/** Compiles a PVE pattern, anchored at both ends. A leading `(?i)` means case-insensitive. */
export function compilePattern(pattern: string, flags = ""): RegExp {
  const key = `${flags}/${pattern}`;
  let regex = compiled.get(key);
  if (regex === undefined) {
    regex = build(pattern, flags);
    compiled.set(key, regex);
  }
  return regex;
}

function build(pattern: string, flags: string): RegExp {
  let source = pattern;
  let options = flags;
  if (source.startsWith("(?i)")) {
    source = source.slice(4);
    if (!options.includes("i")) options += "i";
  }
  // Perl reads {,16} as {0,16}; JavaScript would take it literally.
  source = source.replaceAll(/\{,(\d+)\}/g, "{0,$1}");
  // An empty separator between repeated words matches the same texts but backtracks exponentially here.
  source = source.replaceAll("(?:[._]|__|[-]*)", "(?:[._]|__|[-]+)");
  return new RegExp(`^(?:${source})$`, options);
}
