// Rules that a person wrote are looked at line by line: one that is left out for a typing error would make a test of it lie.
import { AppError } from "@gpve/contracts/errors.ts";
import { parseRules, type Rules } from "../rules.ts";

interface Known {
  readonly nodes: readonly string[];
  readonly services: ReadonlySet<string>;
}

const KEYS: Readonly<Record<string, readonly string[]>> = {
  "node-affinity": ["resources", "nodes", "strict", "disable", "comment"],
  "resource-affinity": ["resources", "affinity", "disable", "comment"],
};
const NEEDED: Readonly<Record<string, readonly string[]>> = {
  "node-affinity": ["resources", "nodes"],
  "resource-affinity": ["resources", "affinity"],
};

interface Section {
  readonly type: string;
  readonly id: string;
  readonly keys: string[];
}

/** Throws (request.invalid) with the line, and what it could be. */
export function requireRules(text: string, known: Known): Rules {
  const sections: Section[] = [];
  for (const [at, line] of text.split("\n").entries()) {
    if (line.trim() === "" || line.startsWith("#")) continue;
    const problem = readLine(line, sections, known);
    if (problem !== undefined) throw wrong(`line ${at + 1} ${problem}`);
  }
  for (const { type, id, keys } of sections) {
    const missing = NEEDED[type]?.find((key) => !keys.includes(key));
    if (missing !== undefined) throw wrong(`'${id}' needs ${missing}`);
    if (sections.filter((other) => other.id === id).length > 1) throw wrong(`'${id}' is there twice`);
  }
  return parseRules(text);
}

function readLine(line: string, sections: Section[], known: Known): string | undefined {
  const [, type, id] = /^([a-z-]+):\s*(\S+)\s*$/.exec(line) ?? [];
  if (type !== undefined && id !== undefined) {
    if (KEYS[type] === undefined)
      return `begins with '${type}'; known are ${Object.keys(KEYS).join(" and ")}`;
    sections.push({ type, id, keys: [] });
    return undefined;
  }
  const [, key = "", value = ""] = /^\s+(\S+)\s*(.*?)\s*$/.exec(line) ?? [];
  const section = sections.at(-1);
  if (key === "" || section === undefined)
    return "is neither 'node-affinity: NAME' nor 'resource-affinity: NAME', nor an indented line below one";
  const keys = KEYS[section.type] ?? [];
  if (!keys.includes(key)) return `has no '${key}'; a rule of ${section.type} knows ${keys.join(", ")}`;
  section.keys.push(key);
  return strangerIn(key, value, known);
}

function strangerIn(key: string, value: string, { nodes, services }: Known): string | undefined {
  const names = value.split(/[,;\s]+/).filter((name) => name !== "");
  if (key === "affinity" && value !== "positive" && value !== "negative")
    return "must be 'affinity positive' or 'affinity negative'";
  if (key === "resources") {
    const stranger = names.find((sid) => !services.has(sid));
    return stranger === undefined
      ? undefined
      : `names the service '${stranger}', which is not under services`;
  }
  if (key !== "nodes") return undefined;
  const odd = names.find((entry) => !/^[^:]+(?::\d+)?$/.test(entry));
  if (odd !== undefined) return `has '${odd}': nodes are written n1:2,n2:1,n3`;
  const stranger = names.map((entry) => entry.split(":")[0] ?? "").find((node) => !nodes.includes(node));
  return stranger === undefined ? undefined : `names the node '${stranger}', which is not under nodes`;
}

function wrong(why: string): AppError {
  return new AppError("request.invalid", `rules: ${why}`);
}
