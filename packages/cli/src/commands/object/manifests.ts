// Objects from files: multi-document YAML or JSON, standard input, whole folders.
import { readdir, readFile, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseAllDocuments } from "yaml";
import type { V1ObjectInput } from "@gpve/client/object.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli, OptionSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import { yamlValue } from "../../yaml-value.ts";

export const fileOption: OptionSpec = {
  flags: "-f, --file <path>",
  about: "YAML or JSON file, folder, or - for standard input; may be given several times",
  many: true,
};

export async function readManifests(cli: Cli, input: Input): Promise<readonly V1ObjectInput[]> {
  const paths = input.texts("file");
  if (paths.length === 0) throw new AppError("request.invalid", "no file is named; give -f FILE");
  const objects: V1ObjectInput[] = [];
  for (const path of paths) {
    if (path === "-") objects.push(...parseManifests(await cli.io.readStdin(), "standard input"));
    else
      for (const file of await filesOf(resolve(cli.io.cwd, path)))
        objects.push(...(await readManifest(file)));
  }
  if (objects.length === 0) throw new AppError("request.invalid", `${paths.join(", ")} holds no objects`);
  return objects;
}

/** Every document must be an object with apiVersion and kind; kind List is unpacked. Errors name file and line. */
export function parseManifests(text: string, where: string): readonly V1ObjectInput[] {
  const documents = parseAllDocuments(text);
  if (!Array.isArray(documents)) return [];
  const objects: V1ObjectInput[] = [];
  for (const document of documents) {
    const value = yamlValue(document, where, "request.invalid");
    if (value === null || value === undefined) continue;
    objects.push(...unpack(value, where, lineOf(text, document.contents?.range?.[0] ?? 0)));
  }
  return objects;
}

function unpack(value: unknown, where: string, line: number): readonly V1ObjectInput[] {
  if (isObject(value) && typeof value["kind"] === "string" && Array.isArray(value["items"])) {
    return (value["items"] as readonly unknown[]).flatMap((item) => unpack(item, where, line));
  }
  const missing = ["apiVersion", "kind"].find((key) => !isObject(value) || typeof value[key] !== "string");
  if (missing !== undefined) {
    throw new AppError("request.invalid", `${where} line ${line}: the object has no ${missing}`);
  }
  // Where the name follows from spec, people leave metadata out.
  return [{ metadata: {}, ...(value as object) } as unknown as V1ObjectInput];
}

function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split("\n").length;
}

async function readManifest(path: string): Promise<readonly V1ObjectInput[]> {
  try {
    return parseManifests(await readFile(path, "utf8"), path);
  } catch (err) {
    if (err instanceof AppError) throw err;
    throw new AppError("request.invalid", `cannot read ${path}`, { cause: err });
  }
}

/** A folder means its YAML and JSON files in order of name, with those of its folders. */
async function filesOf(path: string): Promise<readonly string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = await readdir(path, { recursive: true });
    return names
      .filter((name) => /\.(ya?ml|json)$/.test(name))
      .toSorted()
      .map((name) => join(path, name));
  } catch (err) {
    throw new AppError("request.invalid", `cannot read ${path}`, { cause: err });
  }
}
