// PVE patterns are Perl regular expressions, always checked against the whole value.

/** By flags, then by pattern: a key made of both would be hashed anew for every value. */
const compiled = new Map<string, Map<string, RegExp>>();

/** Compiles a PVE pattern, anchored at both ends. A leading `(?i)` means case-insensitive. */
export function compilePattern(pattern: string, flags = ""): RegExp {
  let alike = compiled.get(flags);
  if (alike === undefined) {
    alike = new Map();
    compiled.set(flags, alike);
  }
  let regex = alike.get(pattern);
  if (regex === undefined) {
    regex = build(pattern, flags);
    alike.set(pattern, regex);
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
