// What a command takes, in PVE's words.
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";
import type { CommandGroup } from "./command-entry.ts";
import { outputOptions, shapeOf, type CommandShape } from "./command-shape.ts";
import { commandsOf } from "./find-command.ts";
import { valueText } from "./output/value-text.ts";

/** "qm start <vmid> [OPTIONS]" */
export function usageLine(name: string, shape: CommandShape): string {
  const places = shape.args.map((arg, at) => {
    const isLast = shape.isList && at === shape.args.length - 1;
    const shown = isLast ? `{<${arg}>}` : `<${arg}>`;
    return isLast || shape.parameters[arg]?.optional === true ? `[${shown}]` : shown;
  });
  const isOfFormat = (key: string): boolean => shape.formats && Object.hasOwn(outputOptions, key);
  const others = Object.entries(shape.parameters).filter(
    ([key]) => !shape.args.includes(key) && !isOfFormat(key),
  );
  const required = others.filter(([, schema]) => schema.optional !== true).toSorted(byName);
  const needed = required.map(([key, schema]) => `--${key} ${typeText(schema)}`);
  const more = others.length > required.length ? ["[OPTIONS]"] : [];
  const formats = shape.formats ? ["[FORMAT_OPTIONS]"] : [];
  return [name, ...places, ...needed, ...more, ...formats].join(" ");
}

/** With every option. */
export function fullUsage(name: string, shape: CommandShape): string {
  const others = Object.entries(shape.parameters).toSorted(byName);
  const lines = others.map(([key, schema]) => {
    const isPlace = shape.args.includes(key);
    const fallback = schema.default === undefined ? "" : `   (default=${valueText(schema.default)})`;
    return `  ${isPlace ? `<${key}>` : `--${key}`.padEnd(22)} ${typeText(schema)}${fallback}`;
  });
  return [`USAGE: ${usageLine(name, shape)}`, "", ...lines].join("\n");
}

export function groupUsage(name: string, group: CommandGroup): string {
  const lines = commandsOf(name, group).map(
    (each) => `       ${usageLine(each.name, shapeOf(each.command))}`,
  );
  return [
    `USAGE: ${name} <COMMAND> [ARGS] [OPTIONS]`,
    ...lines,
    "",
    `       ${name.split(" ")[0]} help [<extra-args>] [OPTIONS]`,
  ].join("\n");
}

function typeText(schema: PveSchema): string {
  if (Array.isArray(schema.enum)) return `<${schema.enum.join(" | ")}>`;
  const { minimum, maximum } = schema;
  const range =
    minimum === undefined && maximum === undefined ? "" : ` (${minimum ?? "-N"} - ${maximum ?? "N"})`;
  return `<${schema.type ?? "string"}>${range}`;
}

function byName(one: readonly [string, unknown], other: readonly [string, unknown]): number {
  return one[0] < other[0] ? -1 : 1;
}
