// `pvesh`: any path of the API from the command line.
import { pveRows } from "@gpve/client/pve-client.ts";
import { isUpid } from "@gpve/client/task-wait.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { PveVerb } from "@gpve/contracts/pve/schema.ts";
import { findMethod, indexChildren } from "@gpve/domain/schema/method-table.ts";
import { pathSegments } from "@gpve/domain/schema/path-segments.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import type { PveSession } from "./command-entry.ts";
import { outputOptions, type CommandShape } from "./command-shape.ts";
import { followTask } from "./follow-task.ts";
import { outputStyle, printResult } from "./output/print-result.ts";
import { prettyJson } from "./output/perl-json.ts";
import { valueText } from "./output/value-text.ts";
import { badUsage, readOptions } from "./read-options.ts";
import { fullUsage, usageLine } from "./usage.ts";

export const pveshVerbs: Readonly<Record<string, PveVerb>> = {
  get: "GET",
  set: "PUT",
  create: "POST",
  delete: "DELETE",
};

export const PVESH_USAGE = [
  "USAGE: pvesh <COMMAND> [ARGS] [OPTIONS]",
  ...["create", "delete", "get", "ls", "set", "usage"].map(
    (verb) => `       pvesh ${verb} <api_path> [OPTIONS]`,
  ),
].join("\n");

const boolean = { type: "boolean", optional: true } as const;

/** What a verb takes at a path; undefined when there is no such method. */
export function pveshShape(verb: string, path: string): (CommandShape & { links: boolean }) | undefined {
  const found = findMethod(pveshVerbs[verb] ?? "GET", pathSegments(path));
  if (found.kind !== "found") return undefined;
  const { method, pathParams } = found;
  const own = Object.entries(method.parameters).filter(([name]) => !Object.hasOwn(pathParams, name));
  return {
    args: ["api_path"],
    isList: false,
    parameters: {
      ...Object.fromEntries(own),
      api_path: { type: "string" },
      noproxy: boolean,
      ...outputOptions,
    },
    formats: true,
    returns: method.returns,
    asked: new Set(),
    links: method.links !== undefined,
  };
}

export async function pvesh(session: PveSession, verb: string, words: readonly string[]): Promise<void> {
  const path = words.find((word) => !word.startsWith("-"));
  if (path === undefined) throw badUsage("not enough arguments");
  if (verb === "usage") {
    showUsage(session, path, words);
    return;
  }
  if (verb === "ls" && pathSegments(path).length === 0) {
    for (const name of indexChildren("/")) session.line(`${capabilities(name).padEnd(12)} ${name}`);
    return;
  }
  const shape = pveshShape(verb, path);
  if (shape === undefined) {
    const text = verb === "ls" ? `no such resource '${path}'` : `No '${verb}' handler defined for '${path}'`;
    throw new AppError("object.not_found", text, { pveStatus: 500, data: { exit: verb === "ls" ? 255 : 1 } });
  }
  const { api_path: _, noproxy: __, ...given } = readOptions(words, shape);
  requireValidParams(
    { parameters: shape.parameters, additionalProperties: false },
    { ...given, api_path: path },
    {
      source: "form",
    },
  );
  const { style, rest } = outputStyle(given, session.io);
  const { pve } = await session.client();
  const segments = pathSegments(path);
  if (segments[0] === "nodes" && segments[1] === "localhost") segments[1] = await session.node();
  const target = `/${segments.map(encodeURIComponent).join("/")}`;
  const { data } = await pve.call(pveshVerbs[verb] ?? "GET", target, rest, { signal: session.io.signal });
  if (verb === "ls") {
    if (!shape.links) {
      throw new AppError("request.invalid", `resource '${path}' does not define child links`, {
        pveStatus: 500,
      });
    }
    const plain = { ...style, border: false, header: false, sortKey: "name" };
    printResult(childRows(path, data), { type: "array" }, plain, session.line, ["capabilities", "name"]);
    return;
  }
  if (isUpid(data) && verb !== "get") {
    // What a program reads stays one value.
    const note = (text: string): void => session.io.stderr.write(`${text}\n`);
    await followTask(session, data, style.format === "text" ? session.line : note);
  }
  printResult(data, shape.returns, style, session.line);
}

function childRows(path: string, data: unknown): readonly Readonly<Record<string, string>>[] {
  const found = findMethod("GET", pathSegments(path));
  const href = found.kind === "found" ? (found.method.links?.[0]?.href ?? "") : "";
  const key = /^\{(\w+)\}$/.exec(href)?.[1] ?? "";
  const base = pathSegments(path).join("/");
  return pveRows(data, path)
    .filter((row) => row[key] !== undefined)
    .map((row) => {
      const name = valueText(row[key]);
      return { name, capabilities: capabilities(`${base}/${name}`) };
    });
}

/** "Dr-c-": a folder; read, write (PUT), create, delete. */
function capabilities(path: string): string {
  const has = (verb: string): boolean => pveshShape(verb, path) !== undefined;
  const read = pveshShape("get", path);
  return [
    read?.links === true ? "D" : "-",
    read === undefined ? "-" : "r",
    has("set") ? "w" : "-",
    has("create") ? "c" : "-",
    has("delete") ? "d" : "-",
  ].join("");
}

function showUsage(session: PveSession, path: string, words: readonly string[]): void {
  const shape: CommandShape = {
    args: ["api_path"],
    isList: false,
    parameters: {
      api_path: { type: "string" },
      verbose: boolean,
      returns: boolean,
      command: { type: "string", enum: Object.keys(pveshVerbs), optional: true },
    },
    formats: false,
    returns: { type: "null" },
    asked: new Set(),
  };
  const options = readOptions(words, shape);
  requireValidParams({ parameters: shape.parameters, additionalProperties: false }, options, {
    source: "form",
  });
  const wanted = options["command"];
  const verbs = Object.keys(pveshVerbs).filter((verb) => wanted === undefined || verb === wanted);
  const found = verbs.flatMap((verb) => {
    const method = pveshShape(verb, path);
    return method === undefined ? [] : [{ verb, method }];
  });
  if (found.length === 0) {
    const text =
      wanted === undefined ? `no such resource '${path}'` : `no '${String(wanted)}' handler for '${path}'`;
    throw new AppError("object.not_found", text, { pveStatus: 500 });
  }
  for (const { verb, method } of found) {
    const { api_path: _, noproxy: __, ...parameters } = method.parameters;
    const own = Object.entries(parameters).filter(([name]) => !Object.hasOwn(outputOptions, name));
    const shown = { ...method, formats: false, args: [], parameters: Object.fromEntries(own) };
    const name = `pvesh ${verb} ${path}`;
    session.line(options["verbose"] === "1" ? fullUsage(name, shown) : `USAGE: ${usageLine(name, shown)}`);
    if (options["returns"] === "1") session.line(`RETURNS: ${prettyJson(method.returns)}`);
  }
}
