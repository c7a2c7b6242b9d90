// The backup file: lines of JSON.
//   {"format":"gpve-store-backup","version":1,"createdAt":"…","revision":42}
//   {"key":"<base64>","value":"<base64>"}      in key order
//   {"end":true,"count":N,"contents":"<sha256 over keys and values>","file":"<sha256 over all bytes before this line>"}
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Bytes } from "../port.ts";
import { compareBytes } from "../keys.ts";
import { ContentDigest, type Contents } from "./digest.ts";

export const BACKUP_FORMAT = "gpve-store-backup";
export const BACKUP_VERSION = 1;

export interface BackupInfo extends Contents {
  readonly createdAt: string;
  /** The store's revision that the backup shows. */
  readonly revision: number;
}

/** Turns records into lines, each to be written with its newline. */
export class BackupWriter {
  readonly #file = createHash("sha256");
  readonly #contents = new ContentDigest();

  header(revision: number, createdAt: string): string {
    return this.#line({ format: BACKUP_FORMAT, version: BACKUP_VERSION, createdAt, revision });
  }

  record(key: Bytes, value: Bytes): string {
    this.#contents.add(key, value);
    return this.#line({ key: base64(key), value: base64(value) });
  }

  end(): string {
    const { count, sha256 } = this.#contents.result();
    return `${JSON.stringify({ end: true, count, contents: sha256, file: this.#file.copy().digest("hex") })}\n`;
  }

  contents(): Contents {
    return this.#contents.result();
  }

  #line(value: object): string {
    const line = `${JSON.stringify(value)}\n`;
    this.#file.update(line);
    return line;
  }
}

/**
 * Reads a backup to its end and checks all of it. Records are handed on as they come: whoever uses them must be
 * ready to throw them away when this rejects.
 */
export async function readBackup(
  path: string,
  onRecord: (key: Bytes, value: Bytes) => void | Promise<void>,
): Promise<BackupInfo> {
  const file = createHash("sha256");
  const contents = new ContentDigest();
  let header: { createdAt: string; revision: number } | undefined;
  let trailer: Readonly<Record<string, unknown>> | undefined;
  let last: Bytes | undefined;
  let number = 0;
  const input = createReadStream(path);
  const failed = new Promise<never>((_resolve, reject) => {
    input.once("error", (err) =>
      reject(new AppError("object.not_found", `cannot read ${path}: ${err.message}`)),
    );
  });
  const lines = createInterface({ input, crlfDelay: Infinity });
  const consume = async (): Promise<void> => {
    for await (const line of lines) {
      number += 1;
      if (trailer !== undefined) throw damaged(path, "there is more after its end");
      const value = parse(path, number, line);
      if (header === undefined) {
        header = parseHeader(path, value);
      } else if (value["end"] === true) {
        trailer = value;
        continue;
      } else {
        const [key, data] = [unbase64(value["key"]), unbase64(value["value"])];
        if (key === undefined || data === undefined || key.length === 0) {
          throw damaged(path, `line ${number} is no record`);
        }
        if (last !== undefined && compareBytes(last, key) >= 0) {
          throw damaged(path, `line ${number} is out of order`);
        }
        last = key;
        contents.add(key, data);
        await onRecord(key, data);
      }
      file.update(`${line}\n`);
    }
  };
  try {
    await Promise.race([consume(), failed]);
  } finally {
    lines.close();
    input.destroy();
  }
  if (header === undefined) throw damaged(path, "it is empty");
  if (trailer === undefined) throw damaged(path, `it is cut off after ${number} lines`);
  const found = contents.result();
  const good =
    trailer["count"] === found.count &&
    trailer["contents"] === found.sha256 &&
    trailer["file"] === file.digest("hex");
  if (!good) throw damaged(path, "its checksum does not match");
  return { ...header, ...found };
}

function parse(path: string, number: number, line: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === "object" && value !== null) return value as Readonly<Record<string, unknown>>;
    throw new TypeError("not an object");
  } catch (err) {
    if (number === 1) throw notABackup(path);
    throw damaged(path, `line ${number} cannot be read (${messageOf(err)})`);
  }
}

function parseHeader(
  path: string,
  value: Readonly<Record<string, unknown>>,
): { createdAt: string; revision: number } {
  const { format, version, createdAt, revision } = value as {
    format?: unknown;
    version?: unknown;
    createdAt?: unknown;
    revision?: unknown;
  };
  if (format !== BACKUP_FORMAT || typeof version !== "number") throw notABackup(path);
  if (version > BACKUP_VERSION) {
    throw new AppError(
      "data.newer_version",
      `${path} is a backup of format ${version}; this version reads up to ${BACKUP_VERSION}`,
      { data: { path, found: version, supported: BACKUP_VERSION } },
    );
  }
  if (typeof createdAt !== "string" || typeof revision !== "number") {
    throw damaged(path, "its header is incomplete");
  }
  return { createdAt, revision };
}

function notABackup(path: string): AppError {
  return new AppError("request.invalid", `${path} is not a backup of a store`, { data: { path } });
}

function damaged(path: string, how: string): AppError {
  return new AppError("request.invalid", `the backup ${path} is damaged: ${how}; nothing was restored`, {
    data: { path },
  });
}

function base64(bytes: Bytes): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

function unbase64(text: unknown): Bytes | undefined {
  return typeof text === "string" ? new Uint8Array(Buffer.from(text, "base64")) : undefined;
}
