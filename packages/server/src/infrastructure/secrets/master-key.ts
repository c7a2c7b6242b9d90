import { randomBytes } from "node:crypto";
import { link, mkdir, open, readFile, stat, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import { isMissingFile } from "@gpve/kit/missing-file.ts";
import { MASTER_KEY_BYTES } from "./sealer.ts";

/** Reads the master key, making one on first use. Two processes starting together end up with the same key. */
export async function loadMasterKey(file: string): Promise<Uint8Array> {
  const existing = await readKey(file);
  if (existing !== undefined) return existing;
  await createKey(file);
  const key = await readKey(file);
  if (key === undefined)
    throw new AppError("internal.error", `the master key ${file} vanished while it was made`);
  return key;
}

async function readKey(file: string): Promise<Uint8Array | undefined> {
  let text: string;
  try {
    const { mode } = await stat(file);
    if ((mode & 0o077) !== 0) {
      throw new AppError(
        "config.invalid",
        `the master key ${file} is readable by others: run chmod 600 on it, and consider every secret known`,
      );
    }
    text = await readFile(file, "utf8");
  } catch (err) {
    if (isMissingFile(err)) return undefined;
    throw err;
  }
  const key = Buffer.from(text.trim(), "hex");
  if (key.length !== MASTER_KEY_BYTES) {
    throw new AppError(
      "config.invalid",
      `the master key ${file} is damaged: expected ${MASTER_KEY_BYTES * 2} hex digits`,
    );
  }
  return key;
}

/** Written whole and synced before it gets its name, so that a crash never leaves half a key. */
async function createKey(file: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${process.pid}.${randomBytes(4).toString("hex")}`;
  const handle = await open(draft, "wx", 0o600);
  try {
    await handle.writeFile(`${randomBytes(MASTER_KEY_BYTES).toString("hex")}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  try {
    await link(draft, file);
  } catch (err) {
    if (!(err instanceof Error && "code" in err && err.code === "EEXIST")) throw err;
    ignore(err, "another process was quicker; its key is the key");
  } finally {
    await unlink(draft);
  }
}
