// What may come next on a command line, computed from the commands' descriptions.
import type { CommandSpec, OptionSpec } from "./command.ts";
import { globalOptions } from "./program.ts";

/** `words` are those after "gpvectl"; the last one is being typed and may be empty. */
export function completeWords(specs: readonly CommandSpec[], words: readonly string[]): readonly string[] {
  const current = words.at(-1) ?? "";
  const done = positionals(specs, words.slice(0, -1));
  const spec = specs.find((one) => one.name === done.slice(0, one.name.split(" ").length).join(" "));
  const options = [...(spec?.options ?? []), ...globalOptions];
  const pending = options.find(
    (option) => takesValue(option) && flagsOf(option).includes(words.at(-2) ?? ""),
  );
  if (pending !== undefined) return startingWith(pending.choices ?? [], current);
  if (current.startsWith("-")) {
    const flags = [...options.flatMap(flagsOf).filter((flag) => flag.startsWith("--")), "--help"];
    return startingWith(flags, current);
  }
  if (spec !== undefined) {
    const place = done.length - spec.name.split(" ").length;
    return startingWith(spec.arguments?.[place]?.choices ?? [], current);
  }
  const depth = done.length;
  const next = specs
    .map((one) => one.name.split(" "))
    .filter((parts) => done.every((word, at) => parts[at] === word))
    .map((parts) => parts[depth] ?? "");
  return startingWith([...new Set(depth === 0 ? [...next, "help"] : next)].toSorted(), current);
}

/** Words that are neither options nor their values. */
function positionals(specs: readonly CommandSpec[], words: readonly string[]): readonly string[] {
  const valued = new Set(
    [...globalOptions, ...specs.flatMap((spec) => spec.options ?? [])].filter(takesValue).flatMap(flagsOf),
  );
  return words.filter((word, at) => !word.startsWith("-") && !valued.has(words[at - 1] ?? ""));
}

function flagsOf(option: OptionSpec): readonly string[] {
  return option.flags.split(/[ ,]+/).filter((part) => part.startsWith("-"));
}

function takesValue(option: OptionSpec): boolean {
  return option.flags.includes("<");
}

function startingWith(candidates: readonly string[], prefix: string): readonly string[] {
  return candidates.filter((candidate) => candidate !== "" && candidate.startsWith(prefix));
}
