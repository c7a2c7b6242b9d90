// From words to a command: groups, aliases, and beginnings of names that only one command has.
import type { CallCommand, CommandEntry, CommandGroup, OwnCommand } from "./command-entry.ts";

export type Runnable = CallCommand | OwnCommand;

export type FoundCommand =
  | {
      readonly kind: "command";
      /** "qm disk import" */
      readonly name: string;
      readonly command: Runnable;
      readonly rest: readonly string[];
    }
  | { readonly kind: "refused"; readonly name: string; readonly why: string }
  | { readonly kind: "group"; readonly name: string; readonly group: CommandGroup }
  | {
      readonly kind: "unknown";
      readonly name: string;
      readonly group: CommandGroup;
      readonly within: string;
    };

export function findCommand(program: string, root: CommandGroup, words: readonly string[]): FoundCommand {
  let group = root;
  let name = program;
  for (const [at, word] of words.entries()) {
    if (word.startsWith("-")) break;
    const key = expand(group, word);
    const entry = key === undefined ? undefined : group.commands[key];
    if (key === undefined || entry === undefined) {
      return { kind: "unknown", name: `${name} ${word}`, group, within: name };
    }
    const rest = words.slice(at + 1);
    if ("alias" in entry) return findCommand(program, root, [...entry.alias.split(" "), ...rest]);
    name = `${name} ${key}`;
    if ("refused" in entry) return { kind: "refused", name, why: entry.refused };
    if (!("commands" in entry)) return { kind: "command", name, command: entry, rest };
    group = entry;
  }
  return { kind: "group", name, group };
}

/** All commands below a group that can be run, by their full names, aliases left out. */
export function commandsOf(
  name: string,
  group: CommandGroup,
): readonly { readonly name: string; readonly command: Runnable }[] {
  return Object.entries(group.commands).flatMap(([key, entry]) => below(`${name} ${key}`, entry));
}

function below(name: string, entry: CommandEntry): readonly { name: string; command: Runnable }[] {
  if ("alias" in entry || "refused" in entry) return [];
  return "commands" in entry ? commandsOf(name, entry) : [{ name, command: entry }];
}

function expand(group: CommandGroup, word: string): string | undefined {
  if (Object.hasOwn(group.commands, word)) return word;
  const begun = Object.entries(group.commands).filter(
    ([key, entry]) => key.startsWith(word) && !("alias" in entry),
  );
  return begun.length === 1 ? begun[0]?.[0] : undefined;
}
