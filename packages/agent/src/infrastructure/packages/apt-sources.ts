// Where the host's packages come from: apt's files of sources, in both their formats.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";

export interface AptRepository {
  readonly Types: readonly string[];
  readonly URIs: readonly string[];
  readonly Suites: readonly string[];
  readonly Components?: readonly string[];
  readonly Options?: readonly { readonly Key: string; readonly Values: readonly string[] }[];
  readonly Comment?: string;
  readonly Enabled: boolean;
  readonly FileType: "list" | "sources";
}

export interface AptSources {
  readonly files: readonly {
    readonly path: string;
    readonly "file-type": "list" | "sources";
    readonly repositories: readonly AptRepository[];
    /** Bytes of the file's SHA-256. */
    readonly digest: readonly number[];
  }[];
  readonly errors: readonly { readonly path: string; readonly error: string }[];
  readonly infos: readonly never[];
  /** Proxmox's own repositories, none of which gpve needs. */
  readonly "standard-repos": readonly never[];
  readonly digest: string;
}

export function readAptSources(folder = "/etc/apt"): AptSources {
  const files: AptSources["files"][number][] = [];
  const errors: AptSources["errors"][number][] = [];
  const whole = createHash("sha256");
  for (const path of sourceFiles(folder)) {
    try {
      const text = readFileSync(path, "utf8");
      const type = path.endsWith(".sources") ? "sources" : "list";
      const repositories = type === "list" ? parseList(text) : parseSources(text);
      const digest = createHash("sha256").update(text).digest();
      files.push({ path, "file-type": type, repositories, digest: [...digest] });
      whole.update(path).update(digest);
    } catch (err) {
      errors.push({ path, error: messageOf(err) });
    }
  }
  return { files, errors, infos: [], "standard-repos": [], digest: whole.digest("hex") };
}

/** `deb [option=value] URI suite component ...` on a line; with # before it, one that is switched off. */
export function parseList(text: string): readonly AptRepository[] {
  const found: AptRepository[] = [];
  let comments: string[] = [];
  for (const [at, line] of text.split("\n").entries()) {
    const entry =
      /^\s*(#?)\s*(deb|deb-src)\s+(?:\[([^\]]*)\]\s*)?([\w+]+:\S+)\s+(\S+)\s*([^#]*)(?:#(.*))?$/.exec(line);
    if (entry !== null) {
      const [, off, type = "", options = "", uri = "", suite = "", components = "", remark] = entry;
      if (remark !== undefined) comments.push(remark.trim());
      found.push({
        Types: [type],
        URIs: [uri],
        Suites: [suite],
        ...listed("Components", words(components)),
        ...optionsOf(
          words(options).map((option) => [
            option.split("=")[0] ?? "",
            option.replace(/^[^=]*=/, "").split(","),
          ]),
        ),
        ...remarks(comments),
        Enabled: off === "",
        FileType: "list",
      });
      comments = [];
    } else if (/^\s*#/.test(line)) comments.push(line.replace(/^\s*#\s?/, ""));
    else if (line.trim() === "") comments = [];
    else throw new Error(`line ${at + 1} names no source`);
  }
  return found;
}

/** Paragraphs of fields, values going on in indented lines. */
export function parseSources(text: string): readonly AptRepository[] {
  return text.split(/\n(?:[ \t]*\n)+/).flatMap((paragraph) => {
    const lines = paragraph.split("\n");
    const comments = lines.filter((line) => line.startsWith("#")).map((line) => line.replace(/^#\s?/, ""));
    const body = lines.filter((line) => !line.startsWith("#")).join("\n");
    const fields = new Map(
      [...body.matchAll(/^([A-Za-z][\w-]*):[ \t]*(.*(?:\n[ \t]+.*)*)/gm)].map(([, key = "", value = ""]) => [
        key,
        words(value),
      ]),
    );
    const known = ["Types", "URIs", "Suites", "Components", "Enabled"];
    if (fields.size === 0) return [];
    const [types, uris, suites] = ["Types", "URIs", "Suites"].map((key) => fields.get(key) ?? []);
    if (!types?.length || !uris?.length || !suites?.length)
      throw new Error("a paragraph without Types, URIs or Suites");
    return [
      {
        Types: types,
        URIs: uris,
        Suites: suites,
        ...listed("Components", fields.get("Components") ?? []),
        ...optionsOf([...fields].filter(([key]) => !known.includes(key))),
        ...remarks(comments),
        Enabled: !/^(?:no|false|0|off|without|disable)$/i.test(fields.get("Enabled")?.[0] ?? "yes"),
        FileType: "sources" as const,
      },
    ];
  });
}

function sourceFiles(folder: string): readonly string[] {
  const parts = join(folder, "sources.list.d");
  const inFolder = (path: string): readonly string[] => {
    try {
      return readdirSync(path).toSorted();
    } catch (err) {
      ignore(err, "no Debian, or none of it");
      return [];
    }
  };
  return [
    ...inFolder(folder)
      .filter((name) => name === "sources.list")
      .map((name) => join(folder, name)),
    ...inFolder(parts)
      .filter((name) => /^[\w.-]+\.(?:list|sources)$/.test(name))
      .map((name) => join(parts, name)),
  ];
}

function words(text: string): readonly string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}

function listed(key: "Components", values: readonly string[]): { readonly Components?: readonly string[] } {
  return values.length === 0 ? {} : { [key]: values };
}

function optionsOf(all: readonly (readonly [string, readonly string[]])[]): Pick<AptRepository, "Options"> {
  return all.length === 0 ? {} : { Options: all.map(([Key, Values]) => ({ Key, Values })) };
}

function remarks(comments: readonly string[]): Pick<AptRepository, "Comment"> {
  return comments.length === 0 ? {} : { Comment: comments.join("\n") };
}
