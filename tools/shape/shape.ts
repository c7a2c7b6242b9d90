// The shape of the product in numbers, as docs/architecture.md has them. Counted on the files themselves, so that any state of
// the repository can be counted alike: `node tools/shape/count.ts [REVISION]`.
import { basename, dirname } from "node:path";

/** Path below packages/ to text. */
export type Tree = ReadonlyMap<string, string>;

export interface Shape {
  readonly files: number;
  readonly lines: number;
  readonly folders: number;
  /** Of one folder, at most. */
  readonly mostFiles: number;
  readonly crowdedFolders: number;
  readonly wiringFiles: number;
  readonly wiringLines: number;
  /** Conditions and loops in them. */
  readonly wiringDecisions: number;
  /** Places that ask whether a guest is a QEMU or a container. */
  readonly askers: number;
  /** Fields that may be absent, given by a condition of their own. */
  readonly conditionalFields: number;
  /** Pairs of files, or places of one, that share six lines to the letter. */
  readonly sharedRuns: number;
}

const CROWDED = 30;
const RUN_LINES = 6;
/** Runs that stand in more places are a way of writing, not a copy. */
const COMMON = 8;

export const isProduct = (path: string): boolean =>
  path.endsWith(".ts") && !/\.test\.ts$|(?:^|\/)(?:gen|testing|node_modules)\//.test(path);

export function shapeOf(tree: Tree): Shape {
  const texts = [...tree.values()];
  const folders = [...Map.groupBy(tree.keys(), (path) => dirname(path)).values()].map(({ length }) => length);
  const wiring = [...tree].filter(([path]) => basename(path).startsWith("compose")).map(([, text]) => text);
  return {
    files: tree.size,
    lines: linesOf(texts),
    folders: folders.length,
    mostFiles: Math.max(...folders),
    crowdedFolders: folders.filter((count) => count > CROWDED).length,
    wiringFiles: wiring.length,
    wiringLines: linesOf(wiring),
    wiringDecisions: found(wiring, /\b(?:if|for|while|switch) \(| \? /g),
    askers: found(texts, /\btype\b"?\]?\s*(?:===|!==)\s*"(?:qemu|lxc)"|\bcase\s+"(?:qemu|lxc)"/g),
    conditionalFields: found(texts, /\.\.\.\([^;{}]*=== undefined\s*\?\s*\{\}\s*:/g),
    sharedRuns: sharedRuns(tree),
  };
}

export interface Tie {
  readonly name: string;
  readonly members: number;
  readonly importers: number;
}

/** The exported interfaces with methods that tie most together: members by the files that name them. */
export function ties(tree: Tree, atLeast = 12): readonly Tie[] {
  const declared = [...tree].flatMap(([path, text]) =>
    [...text.matchAll(/export interface (\w+)[^{]*\{\n(.*?)\n\}/gs)].map(([, name = "", body = ""]) => {
      const members = body.match(/^ {2}(?:readonly )?[\w"-]+\??(?:<[^>]*>)?[:(]/gm)?.length ?? 0;
      return { name, path, members, isPort: /^ {2}[\w]+\??(?:<[^>]*>)?\(|=> /m.test(body) };
    }),
  );
  return declared
    .filter(({ members, isPort }) => isPort && members >= atLeast)
    .map(({ name, path, members }) => {
      const importing = new RegExp(`import[^;]*\\b${name}\\b[^;]*from`);
      const importers = [...tree].filter(([other, text]) => other !== path && importing.test(text)).length;
      return { name, members, importers };
    })
    .toSorted((a, b) => b.members * b.importers - a.members * a.importers);
}

function linesOf(texts: readonly string[]): number {
  return found(texts, /\n/g);
}

function found(texts: readonly string[], what: RegExp): number {
  return texts.reduce((sum, text) => sum + (text.match(what)?.length ?? 0), 0);
}

function sharedRuns(tree: Tree): number {
  const places = new Map<string, string[]>();
  for (const [path, text] of tree) {
    const lines = codeLines(text);
    for (let at = 0; at + RUN_LINES <= lines.length; at++) {
      const run = lines.slice(at, at + RUN_LINES).join("\n");
      places.set(run, [...(places.get(run) ?? []), path]);
    }
  }
  const pairs = new Set<string>();
  for (const paths of places.values())
    if (paths.length > 1 && paths.length <= COMMON)
      for (const [index, path] of paths.entries())
        for (const other of paths.slice(index + 1)) pairs.add([path, other].toSorted().join(" "));
  return pairs.size;
}

/** Without imports, comments, blank lines and lone punctuation. */
function codeLines(text: string): readonly string[] {
  return text
    .replaceAll(/^import [^;]*;$/gm, "")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => /\w/.test(line) && !/^(?:\/\/|\/?\*)/.test(line));
}
