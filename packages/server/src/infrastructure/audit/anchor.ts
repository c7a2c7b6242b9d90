import { randomUUID } from "node:crypto";
import { open, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { isMissingFile } from "@gpve/kit/missing-file.ts";
import { sha256 } from "./chain.ts";

export const ANCHOR_FILE = "anchor.json";

/** What the first entry is chained to: it makes every log's chain its own. undefined when the file is absent. */
export async function readAnchor(dir: string): Promise<string | undefined> {
  try {
    return sha256(await readFile(join(dir, ANCHOR_FILE), "utf8"));
  } catch (err) {
    if (isMissingFile(err)) return undefined;
    throw err;
  }
}

export async function writeAnchor(dir: string, clock: Clock): Promise<string> {
  const text = `${canonicalJson({ version: 1, id: randomUUID(), created: new Date(clock.now()).toISOString() })}\n`;
  const temporary = join(dir, `${ANCHOR_FILE}.new`);
  const handle = await open(temporary, "w", 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, join(dir, ANCHOR_FILE));
  await syncDirectory(dir);
  return sha256(text);
}

export async function syncDirectory(dir: string): Promise<void> {
  const handle = await open(dir, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
