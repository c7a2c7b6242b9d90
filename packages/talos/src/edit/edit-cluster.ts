// Changes to cluster.yaml by key, as a person would make them: everything else stays, comments too.
import { AppError } from "@gpve/contracts/errors.ts";
import { type Document, isMap, isScalar, isSeq, parse, parseDocument, stringify } from "yaml";
import { parseCluster } from "../cluster/parse-cluster.ts";
import type { Environment } from "../cluster/environment.ts";

export interface Edit {
  /** "controlPlane.count", "pools.worker.count", "pools.0.count"; a key with dots in quotes: 'pools.worker.labels."example.org/tier"' */
  readonly key: string;
  /** YAML; undefined takes the key out. */
  readonly value: string | undefined;
}

/** "KEY=VALUE", or "KEY-" to take it out. */
export function parseEdit(text: string): Edit {
  const [, key, value] = /^((?:"[^"]*"|[^="])+)=(.*)$/s.exec(text) ?? [];
  if (key !== undefined) return { key, value };
  const [, removed] = /^((?:"[^"]*"|[^="])+)-$/.exec(text) ?? [];
  if (removed !== undefined) return { key: removed, value: undefined };
  throw new AppError("request.invalid", `"${text}" is no change; write KEY=VALUE, or KEY- to take it out`);
}

/** The new text, which is a valid file: what would make it another is refused. */
export function editCluster(text: string, edits: readonly Edit[], file: string, env: Environment): string {
  const changed = edits.reduce((current, edit) => applyEdit(current, edit, file, env), text);
  parseCluster(changed, file, env);
  return changed;
}

function applyEdit(text: string, { key, value }: Edit, file: string, env: Environment): string {
  const document: Document = parseDocument(text, { prettyErrors: false, logLevel: "error" });
  if (document.errors.length > 0) parseCluster(text, file, env);
  const path = pathOf(document, key);
  const asWritten = write(document);
  if (value === undefined) {
    changing(key, () => document.deleteIn(path));
    return keepLayout(text, asWritten, write(document));
  }
  const parsed = parseValue(key, value);
  const node = document.getIn(path, true);
  const isSingle = typeof parsed !== "object" && !value.includes("\n");
  if (isScalar(node) && node.range && isSingle) {
    // In its place, character by character: the rest of the file stays as the person laid it out.
    const [from, to] = node.range;
    return `${text.slice(0, from)}${stringify(parsed, { lineWidth: 0 }).trimEnd()}${text.slice(to)}`;
  }
  changing(key, () => document.setIn(path, document.createNode(parsed)));
  return keepLayout(text, asWritten, write(document));
}

const write = (document: Document): string => document.toString({ lineWidth: 0 });

/** Lines that only the writer would lay out otherwise ("[a]" as "[ a ]") stay as the person wrote them. */
function keepLayout(text: string, asWritten: string, changed: string): string {
  // The writer leaves one blank line where there are several.
  const [own = [], written = []] = [text, asWritten].map((each) =>
    each.split("\n").filter((line) => line !== ""),
  );
  if (own.length !== written.length) return changed;
  const before = new Map(written.map((line, at) => [line, own[at]]));
  return changed
    .split("\n")
    .map((line) => before.get(line) ?? line)
    .join("\n");
}

function changing(key: string, change: () => unknown): void {
  try {
    change();
  } catch (cause) {
    throw new AppError("request.invalid", `${key} leads through something that has no keys`, { cause });
  }
}

function parseValue(key: string, text: string): unknown {
  try {
    return parse(text, { prettyErrors: false, logLevel: "error" }) as unknown;
  } catch (cause) {
    throw new AppError("request.invalid", `the value of ${key} is no YAML`, { cause });
  }
}

/** Items of lists are found by their name. */
function pathOf(document: Document, key: string): readonly (string | number)[] {
  const path: (string | number)[] = [];
  for (const { part, isQuoted } of partsOf(key)) {
    const at = document.getIn(path, true);
    if (isQuoted) path.push(part);
    else if (isSeq(at) && !/^\d+$/.test(part)) {
      const named = at.items.findIndex((item) => isMap(item) && item.get("name") === part);
      if (named < 0) throw unknownName(path.join("."), part, namesIn(at.items));
      path.push(named);
    } else path.push(/^\d+$/.test(part) ? Number(part) : part);
  }
  return path;
}

function partsOf(key: string): readonly { readonly part: string; readonly isQuoted: boolean }[] {
  const parts = [...key.matchAll(/(?:^|\.)(?:"([^"]*)"|([^."]+))(?=\.|$)/gy)].map(
    ([, quoted, plain = ""]) => ({
      part: quoted ?? plain,
      isQuoted: quoted !== undefined,
    }),
  );
  const length = parts.reduce((sum, { part, isQuoted }) => sum + part.length + (isQuoted ? 3 : 1), -1);
  if (length === key.length) return parts;
  throw new AppError("request.invalid", `"${key}" is no key; its parts are joined by single dots`);
}

function namesIn(items: readonly unknown[]): readonly string[] {
  return items.flatMap((item) => (isMap(item) ? [String(item.get("name"))] : []));
}

function unknownName(list: string, name: string, known: readonly string[]): AppError {
  const there = known.length === 0 ? "it is empty" : `there is ${known.join(", ")}`;
  return new AppError("object.not_found", `${list} has no "${name}": ${there}`);
}
