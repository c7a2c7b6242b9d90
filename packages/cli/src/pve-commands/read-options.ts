// The words of a command line, read as PVE reads them (Getopt::Long): options anywhere, with one or two dashes,
// shortened where that is unambiguous; what is left are the positional arguments.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";
import { fixedKeys, schemaOfKey } from "@gpve/domain/schema/properties.ts";
import type { CommandShape } from "./command-shape.ts";

/** A mistake in the command line; `complaint` is said before it. */
export function badUsage(message: string, complaint?: string): AppError {
  return new AppError("request.invalid", message, {
    pveStatus: 400,
    data: { isUsage: true, ...given({ complaint }) },
  });
}

export function readOptions(
  words: readonly string[],
  shape: CommandShape,
): Record<string, string | readonly string[]> {
  const given = new Map<string, string[]>();
  const places: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    if (word === "--") {
      places.push(...words.slice(at + 1));
      break;
    }
    const option = /^--?([^=]+)(?:=(.*))?$/s.exec(word);
    if (option === null || word === "-") {
      places.push(word);
      continue;
    }
    const name = nameOf(option[1] ?? "", shape);
    const isOptional = shape.asked.has(name) || schemaOf(shape, name).type === "boolean";
    const next = words[at + 1];
    let value = option[2];
    if (value === undefined && next !== undefined && !(isOptional && next.startsWith("-"))) {
      value = next;
      at += 1;
    }
    if (value === undefined && !isOptional) {
      throw badUsage("unable to parse option", `Option ${name} requires an argument`);
    }
    given.set(name, [...(given.get(name) ?? []), value ?? ""]);
  }
  const values = Object.fromEntries(
    [...given].map(([name, texts]) => [name, valueOf(schemaOf(shape, name), texts)]),
  );
  return { ...values, ...placed(places, shape) };
}

function placed(words: readonly string[], shape: CommandShape): Record<string, string | readonly string[]> {
  const { args, isList, parameters } = shape;
  const values: Record<string, string | readonly string[]> = {};
  const singles = isList ? args.slice(0, -1) : args;
  for (const [at, name] of singles.entries()) {
    const word = words[at];
    if (word === undefined) {
      // Those that are left out are the last ones, and nobody needs them.
      if (singles.slice(at).every((each) => parameters[each]?.optional === true)) break;
      throw badUsage("not enough arguments");
    }
    values[name] = word;
  }
  const left = words.slice(singles.length);
  const last = args.at(-1);
  if (!isList || last === undefined) {
    if (left.length > 0) throw badUsage("too many arguments");
    return values;
  }
  if (left.length > 0) values[last] = parameters[last]?.type === "array" ? left : left.join(",");
  return values;
}

function nameOf(text: string, shape: CommandShape): string {
  if (schemaOfKey(shape.parameters, text) !== undefined) return text;
  const wanted = text.toLowerCase();
  const names = [...fixedKeys(shape.parameters).keys()];
  const exact = names.filter((name) => name.toLowerCase() === wanted);
  const begun = exact.length > 0 ? exact : names.filter((name) => name.toLowerCase().startsWith(wanted));
  if (begun.length > 1) {
    throw badUsage("unable to parse option", `Option ${text} is ambiguous (${begun.toSorted().join(", ")})`);
  }
  const [name] = begun;
  if (name === undefined) throw badUsage("unable to parse option", `Unknown option: ${text}`);
  return name;
}

function schemaOf(shape: CommandShape, name: string): PveSchema {
  return schemaOfKey(shape.parameters, name) ?? {};
}

function valueOf(schema: PveSchema, texts: readonly string[]): string | readonly string[] {
  const last = texts.at(-1) ?? "";
  if (schema.type === "boolean") return booleanOf(last);
  if (schema.type === "array") return texts;
  const isList = typeof schema.format === "string" && schema.format.endsWith("-list");
  return isList ? texts.join(",") : last;
}

function booleanOf(text: string): string {
  if (text === "" || /^(?:1|on|yes|true)$/i.test(text)) return "1";
  if (/^(?:0|off|no|false)$/i.test(text)) return "0";
  throw badUsage("unable to parse boolean option");
}
