// Where the log ends, sealed with a key that is not in this directory. Two equal copies, one disk sector each: a torn
// write leaves one valid. No older head stays behind that could be used to hide a cut.
import { type FileHandle, open, readFile } from "node:fs/promises";
import { constants } from "node:fs";
import { join } from "node:path";
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import { isMissingFile } from "@gpve/kit/missing-file.ts";
import { sameText } from "@gpve/kit/same-bytes.ts";
import { type ChainPoint, hmac } from "./chain.ts";

export interface Head extends ChainPoint {
  /** Hash of the anchor: a head of another log does not fit. */
  readonly anchor: string;
  readonly file: string;
  /** Where the next line goes. */
  readonly offset: number;
  /** The last entry that was removed to bound the log; absent = none ever was. */
  readonly from?: ChainPoint;
}

export const HEAD_FILE = "head";
const COPY_BYTES = 512;

/** The newest head with a valid seal. `whole` is false when the two copies are not the same. */
export async function readHead(
  dir: string,
  key: Uint8Array,
): Promise<{ head: Head; whole: boolean } | undefined> {
  const bytes = await readFile(join(dir, HEAD_FILE)).catch((err: unknown) => {
    if (isMissingFile(err)) return Buffer.alloc(0);
    throw err;
  });
  const copies = [bytes.subarray(0, COPY_BYTES), bytes.subarray(COPY_BYTES)];
  const head = copies
    .map((copy) => parseCopy(copy.toString("utf8"), key))
    .filter((copy) => copy !== undefined)
    .toSorted((a, b) => b.seq - a.seq)[0];
  return head === undefined ? undefined : { head, whole: copies[0]?.equals(copies[1] ?? copies[0]) === true };
}

export class HeadWriter {
  readonly #handle: FileHandle;
  readonly #key: Uint8Array;

  private constructor(handle: FileHandle, key: Uint8Array) {
    this.#handle = handle;
    this.#key = key;
  }

  static async open(dir: string, key: Uint8Array): Promise<HeadWriter> {
    const handle = await open(join(dir, HEAD_FILE), constants.O_RDWR | constants.O_CREAT, 0o600);
    return new HeadWriter(handle, key);
  }

  async write(head: Head): Promise<void> {
    const seal = hmac(this.#key, canonicalJson(head));
    const copy = `${canonicalJson({ head, mac: seal }).padEnd(COPY_BYTES - 1)}\n`;
    await this.#handle.write(copy + copy, 0, "utf8");
  }

  sync(): Promise<void> {
    return this.#handle.datasync();
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}

function parseCopy(text: string, key: Uint8Array): Head | undefined {
  try {
    const { head, mac } = JSON.parse(text) as { head: Head; mac: unknown };
    return typeof mac === "string" && sameText(mac, hmac(key, canonicalJson(head))) ? head : undefined;
  } catch {
    return undefined;
  }
}
