// Files and folders before they have names and places on a disc.
import { AppError } from "@gpve/contracts/errors.ts";

export interface IsoFile {
  readonly name: string;
  readonly data: Uint8Array;
}

export interface IsoFolder {
  readonly name: string;
  readonly parent: IsoFolder | undefined;
  readonly files: IsoFile[];
  readonly folders: IsoFolder[];
}

export function isoTree(files: Readonly<Record<string, string | Uint8Array>>): IsoFolder {
  const root: IsoFolder = { name: "", parent: undefined, files: [], folders: [] };
  for (const [path, content] of Object.entries(files)) {
    const steps = path.split("/");
    const name = steps.pop() ?? "";
    if (
      [...steps, name].some((step) => step === "" || step === "." || step === ".." || step.includes("\0"))
    ) {
      throw new AppError("internal.error", `bad file name in cloud-init image: ${path}`);
    }
    const folder = steps.reduce(enter, root);
    folder.files.push({ name, data: typeof content === "string" ? Buffer.from(content) : content });
  }
  return root;
}

/** Level by level, in a level by parent and name: the order a path table wants. */
export function walkFolders(root: IsoFolder, naming: { compare(a: string, b: string): number }): IsoFolder[] {
  const found = [root];
  for (const folder of found) {
    found.push(...folder.folders.toSorted((a, b) => naming.compare(a.name, b.name)));
  }
  return found;
}

function enter(folder: IsoFolder, name: string): IsoFolder {
  const known = folder.folders.find((child) => child.name === name);
  if (known !== undefined) return known;
  const fresh: IsoFolder = { name, parent: folder, files: [], folders: [] };
  folder.folders.push(fresh);
  return fresh;
}
