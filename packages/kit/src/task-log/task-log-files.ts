// Task logs as plain text files, DIR/<x>/<UPID>: append-only, one line per row, the last one "TASK OK" or what
// went wrong. <x> is a hash digit, so that no directory gets too long.
import { createHash } from "node:crypto";
import { createReadStream, existsSync, statSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "@gpve/contracts/errors.ts";
import { isMissingFile } from "../missing-file.ts";
import type { OperationLogger, TaskLog, TaskLogSink } from "../operation/ports.ts";
import { LineIndex } from "./line-index.ts";
import { indexPath, readIndex } from "./log-file.ts";
import { TaskLogWriter } from "./task-log-writer.ts";

export interface TaskLogPage {
  readonly rows: readonly { readonly n: number; readonly t: string }[];
  readonly total: number;
}

const MAX_NAME_BYTES = 200;

export class TaskLogFiles implements TaskLogSink {
  readonly #directory: string;
  readonly #logger: OperationLogger;
  readonly #writers = new Map<string, TaskLogWriter>();

  constructor(options: { readonly directory: string; readonly logger: OperationLogger }) {
    this.#directory = options.directory;
    this.#logger = options.logger;
  }

  open(id: string): TaskLog {
    let writer = this.#writers.get(id);
    if (writer !== undefined) return writer;
    writer = new TaskLogWriter({
      path: this.#path(id),
      onFailure: (error) =>
        this.#logger.warn({ err: messageOf(error), task: id }, "a task log is incomplete"),
      onFinished: () => this.#writers.delete(id),
    });
    const opened = writer;
    // Known only while it is being written: thousands of finished logs cost nothing.
    writer.onFirstUse = () => this.#writers.set(id, opened);
    return writer;
  }

  async remove(id: string): Promise<void> {
    const writer = this.#writers.get(id);
    this.#writers.delete(id);
    await writer?.close();
    await rm(this.#path(id), { force: true });
    await rm(indexPath(this.#path(id)), { force: true });
  }

  async close(): Promise<void> {
    await Promise.all([...this.#writers.values()].map((writer) => writer.close()));
  }

  /** Lines from `start` (0 = the first); `limit` 0 = all. undefined = no such log. */
  async read(id: string, start: number, limit: number): Promise<TaskLogPage | undefined> {
    await this.#writers.get(id)?.flush();
    const file = await openIfThere(this.#path(id));
    if (file === undefined) return undefined;
    try {
      const index =
        this.#writers.get(id)?.index ?? (await LineIndex.load(file, await readIndex(this.#path(id))));
      const total = index.lines + (index.fed > index.bytes ? 1 : 0);
      const count = Math.max(0, limit === 0 ? total - start : Math.min(limit, total - start));
      const lines = count === 0 ? [] : await readLines(file, index, start, count);
      return { rows: lines.map((t, at) => ({ n: start + at + 1, t })), total };
    } finally {
      await file.close();
    }
  }

  /** The log's bytes as of now. undefined = no such log. */
  stream(id: string): AsyncIterable<Uint8Array> | undefined {
    const path = this.#path(id);
    if (!existsSync(path)) return undefined;
    const { size } = statSync(path);
    return size === 0 ? empty() : createReadStream(path, { start: 0, end: size - 1 });
  }

  #path(id: string): string {
    const hash = createHash("sha256").update(id).digest("hex");
    // A UPID has no "/"; anything else that is no safe file name is named by its hash.
    const isSafe = /^[A-Za-z0-9][^/\0]*$/.test(id) && Buffer.byteLength(id) <= MAX_NAME_BYTES;
    return join(this.#directory, hash.slice(0, 1), isSafe ? id : hash);
  }
}

async function readLines(
  file: FileHandle,
  index: LineIndex,
  start: number,
  count: number,
): Promise<readonly string[]> {
  const { offset, skip } = index.seek(start);
  const { offset: end, skip: rest } = index.seek(start + count);
  // When the last line wanted is inside a block, its end is not known: read to the next entry, or to the end.
  const stop = rest === 0 ? end : (index.offsets[index.offsets.indexOf(end) + 1] ?? index.fed);
  const buffer = Buffer.alloc(stop - offset);
  const { bytesRead } = await file.read(buffer, 0, buffer.length, offset);
  const lines = buffer.subarray(0, bytesRead).toString("utf8").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.slice(skip, skip + count);
}

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, "r");
  } catch (error) {
    if (isMissingFile(error)) return undefined;
    throw error;
  }
}

async function* empty(): AsyncIterable<Uint8Array> {
  // Nothing to say.
}
