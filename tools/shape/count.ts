// Prints the shape of the product: of the working tree, or of a revision.
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { exec } from "@gpve/kit/exec.ts";
import { isProduct, shapeOf, ties, type Tree } from "./shape.ts";

const ROOT = resolve(import.meta.dirname, "../..");

async function read(packages: string): Promise<Tree> {
  const all = await readdir(packages, { recursive: true });
  const texts = all
    .filter(isProduct)
    .map(async (path) => [path, await readFile(join(packages, path), "utf8")] as const);
  return new Map(await Promise.all(texts));
}

async function ofRevision(revision: string): Promise<Tree> {
  const folder = await mkdtemp(join(tmpdir(), "gpve-shape-"));
  try {
    const archive = join(folder, "packages.tar");
    await exec("git", ["-C", ROOT, "archive", "-o", archive, revision, "packages"], { timeoutMs: 60_000 });
    await exec("tar", ["-x", "-f", archive, "-C", folder], { timeoutMs: 60_000 });
    return await read(join(folder, "packages"));
  } finally {
    await rm(folder, { recursive: true });
  }
}

const revision = process.argv[2];
const tree = revision === undefined ? await read(join(ROOT, "packages")) : await ofRevision(revision);
const counted = { ...shapeOf(tree), ties: ties(tree).slice(0, 3) };
process.stdout.write(`${JSON.stringify(counted, undefined, 2)}\n`);
