// key=value words of `api get|post|put|delete`.
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { PveValues } from "@gpve/client/pve-encoding.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli } from "../../command.ts";

/** A repeated key becomes a list; `key=@file` and `key=@-` take the value from a file or standard input. */
export async function readParameters(cli: Cli, words: readonly string[]): Promise<PveValues> {
  const values: Record<string, string | readonly string[]> = {};
  for (const { key, value } of words.map(splitWord)) {
    const text = value.startsWith("@") ? await fromFile(cli, value.slice(1)) : value;
    const before = values[key];
    values[key] = before === undefined ? text : [...(typeof before === "string" ? [before] : before), text];
  }
  return values;
}

export function splitWord(word: string): { key: string; value: string } {
  const at = word.indexOf("=");
  if (at < 1) throw new AppError("request.invalid", `"${word}" is not key=value`);
  return { key: word.slice(0, at), value: word.slice(at + 1) };
}

async function fromFile(cli: Cli, path: string): Promise<string> {
  if (path === "-") return (await cli.io.readStdin()).replace(/\r?\n$/, "");
  try {
    return (await readFile(resolve(cli.io.cwd, path), "utf8")).replace(/\r?\n$/, "");
  } catch (err) {
    throw new AppError("request.invalid", `cannot read ${path}`, {
      cause: err,
      data: { next: "A value that starts with @ names a file." },
    });
  }
}

/** Values of /api/v1 bodies: JSON where it parses, text otherwise. `a.b=1` nests. */
export function jsonBody(values: PveValues): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(values)) {
    const parts = key.split(".");
    const last = parts.pop() ?? key;
    let place = body;
    for (const part of parts) {
      if (["__proto__", "constructor", "prototype"].includes(part)) {
        throw new AppError("request.invalid", `"${key}" is not a field`);
      }
      const inner = place[part];
      const next = typeof inner === "object" && inner !== null ? (inner as Record<string, unknown>) : {};
      place[part] = next;
      place = next;
    }
    place[last] = Array.isArray(value) ? value.map(jsonValue) : jsonValue(value);
  }
  return body;
}

function jsonValue(value: unknown): unknown {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
}
