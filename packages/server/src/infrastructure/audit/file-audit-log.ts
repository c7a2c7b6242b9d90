// The audit log as JSON lines in DIR. One writer takes whatever waits, writes it in one go, brings it to disk,
// notes the new head and only then answers: an acknowledged entry survives a power cut, at one sync per batch.
import { constants } from "node:fs";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type {
  AuditEntry,
  AuditFilters,
  AuditLog,
  AuditRecord,
  AuditVerdict,
} from "@gpve/domain/audit/audit-log.ts";
import { type FailureLog, ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { redact } from "@gpve/kit/redact.ts";
import { readAnchor, syncDirectory, writeAnchor } from "./anchor.ts";
import { fileName } from "./audit-files.ts";
import { type ChainPoint, lineOf, sealed } from "./chain.ts";
import { HeadWriter, readHead } from "./head-file.ts";
import { listAudit } from "./list-audit.ts";
import { pruningPoint, removeBefore } from "./prune-audit.ts";
import { resumeFrom } from "./recover.ts";
import { verifyAudit } from "./verify-audit.ts";

export interface FileAuditLogOptions {
  /** Made with mode 0700 when absent. */
  readonly dir: string;
  /** Seals the head. Kept outside `dir`, or whoever can change the log can seal it again. */
  readonly key: Uint8Array;
  readonly clock: Clock;
  readonly log: FailureLog;
  /** A file that has grown beyond this is followed by a new one. */
  readonly maxFileBytes?: number;
  /** The oldest file goes when there are more. */
  readonly maxFiles?: number;
}

const MAX_BATCH = 500;
const MAX_FILE_BYTES = 64 * 1024 * 1024;
/** Together 2 GiB, about five million entries. */
const MAX_FILES = 32;
/** The head reaches the disk this late; after a power cut the entries since then are found unsealed and kept. */
const HEAD_SYNC_MS = 1_000;

interface Waiting {
  readonly entry: AuditEntry;
  readonly resolve: () => void;
  readonly reject: (err: Error) => void;
}

interface Place {
  readonly point: ChainPoint;
  readonly file: string;
  readonly offset: number;
  readonly from?: ChainPoint;
}

export async function openFileAuditLog(options: FileAuditLogOptions): Promise<FileAuditLog> {
  const { dir, key, clock } = options;
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const stored = await readHead(dir, key);
  const anchor = (await readAnchor(dir)) ?? stored?.head.anchor ?? (await writeAnchor(dir, clock));
  const resume = await resumeFrom(dir, anchor, stored?.head);
  const notes = [...resume.notes];
  if (stored?.whole === false) notes.push("one copy of the sealed head was damaged");
  const log = new FileAuditLog(options, anchor, await HeadWriter.open(dir, key), {
    ...resume,
    ...given({ from: stored?.head.from }),
  });
  if (notes.length > 0) {
    options.log.error({ notes }, "the audit log was not closed cleanly or its files were changed");
    await log.append(recoveryEntry(clock, notes));
  }
  return log;
}

export class FileAuditLog implements AuditLog {
  readonly #options: FileAuditLogOptions;
  readonly #anchor: string;
  readonly #head: HeadWriter;
  readonly #waiting: Waiting[] = [];
  #place: Place;
  #file: FileHandle | undefined;
  #writer: Promise<void> | undefined;
  #cancelSync: (() => void) | undefined;
  #closed = false;

  constructor(options: FileAuditLogOptions, anchor: string, head: HeadWriter, place: Place) {
    this.#options = options;
    this.#anchor = anchor;
    this.#head = head;
    this.#place = place;
  }

  append(entry: AuditEntry): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#closed) {
        reject(new AppError("store.unavailable", "the audit log is closed"));
        return;
      }
      this.#waiting.push({ entry: redact(entry) as AuditEntry, resolve, reject });
      this.#writer ??= this.#drain();
    });
  }

  list(filters: AuditFilters = {}): AsyncIterable<AuditRecord> {
    return listAudit(this.#options.dir, filters);
  }

  verify(): Promise<AuditVerdict> {
    const { seq, hash } = this.#place.point;
    return verifyAudit(this.#options.dir, this.#options.key, { live: { seq, hash } });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#writer;
    this.#cancelSync?.();
    await this.#head.sync();
    await this.#head.close();
    await this.#file?.close();
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, MAX_BATCH);
      try {
        await this.#write(batch.map(({ entry }) => entry));
        for (const { resolve } of batch) resolve();
      } catch (err) {
        const code = (err as NodeJS.ErrnoException).code;
        const full = code === "ENOSPC" || code === "EDQUOT";
        const error = new AppError(
          full ? "store.full" : "store.unavailable",
          `cannot write the audit log in ${this.#options.dir}: ${messageOf(err)}`,
          { cause: err },
        );
        this.#options.log.error({ err }, "cannot write the audit log");
        for (const { reject } of batch) reject(error);
      }
    }
    // In the same breath as the check above, so that no entry can slip in between and wait for nobody.
    this.#writer = undefined;
  }

  async #write(entries: readonly AuditEntry[]): Promise<void> {
    let { point, file, offset } = this.#place;
    const from = this.#place.from === undefined ? {} : { from: this.#place.from };
    const { maxFileBytes = MAX_FILE_BYTES } = this.#options;
    const isNewFile = offset >= maxFileBytes;
    if (isNewFile) {
      await this.#file?.close();
      this.#file = undefined;
      [file, offset] = [fileName(point.seq + 1), 0];
    }
    const handle = await this.#open(file, offset);
    const lines = entries.map((entry) => {
      const record = sealed(entry, point);
      point = record;
      return lineOf(record);
    });
    const bytes = Buffer.from(lines.join(""));
    try {
      for (let done = 0; done < bytes.length;) {
        done += (await handle.write(bytes, done, bytes.length - done, offset + done)).bytesWritten;
      }
      await handle.datasync();
      const next = {
        point: { seq: point.seq, hash: point.hash },
        file,
        offset: offset + bytes.length,
        ...from,
      };
      await this.#writeHead(next);
      this.#place = next;
    } catch (err) {
      // Half a batch must not stay: the next one begins at the same place. Opening anew cuts it off if this fails.
      this.#file = undefined;
      await handle.truncate(offset).catch((again: unknown) => ignore(again, "tried again at the next open"));
      await handle.close().catch((again: unknown) => ignore(again, "the write error is the one to tell"));
      throw err;
    }
    if (isNewFile) await this.#prune();
    this.#cancelSync ??= this.#options.clock.after(HEAD_SYNC_MS, () => {
      this.#cancelSync = undefined;
      this.#head
        .sync()
        .catch((err: unknown) => this.#options.log.error({ err }, "cannot sync the audit head"));
    });
  }

  #writeHead({ point, file, offset, from }: Place): Promise<void> {
    return this.#head.write({
      ...point,
      anchor: this.#anchor,
      file,
      offset,
      ...given({ from }),
    });
  }

  /** The entries of this batch are safe already: what fails here is told and tried again with the next file. */
  async #prune(): Promise<void> {
    const { dir, maxFiles = MAX_FILES, log } = this.#options;
    try {
      const from = await pruningPoint(dir, maxFiles);
      if (from === undefined) return;
      const next = { ...this.#place, from };
      await this.#writeHead(next);
      await this.#head.sync();
      this.#place = next;
      await removeBefore(dir, from);
    } catch (err) {
      log.error({ err }, "cannot remove the oldest file of the audit log");
    }
  }

  async #open(file: string, offset: number): Promise<FileHandle> {
    if (this.#file !== undefined) return this.#file;
    const { dir } = this.#options;
    const handle = await open(join(dir, file), constants.O_RDWR | constants.O_CREAT, 0o600);
    try {
      await handle.truncate(offset);
      await syncDirectory(dir);
    } catch (err) {
      await handle.close();
      throw err;
    }
    this.#file = handle;
    return handle;
  }
}

function recoveryEntry(clock: Clock, notes: readonly string[]): AuditEntry {
  return {
    timestamp: new Date(clock.now()).toISOString(),
    requestId: "",
    user: "",
    userGroups: [],
    verb: "recover",
    resource: "/audit",
    name: "",
    namespace: "",
    sourceIP: "",
    userAgent: "",
    statusCode: 0,
    message: notes.join("; "),
  };
}
