import { writeFile } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import type { TaskLog } from "../operation/ports.ts";
import { LineIndex } from "./line-index.ts";
import { indexPath, openForAppend, readIndex } from "./log-file.ts";

const LAST_LINE = /(?:^|\n)TASK (?:OK|ERROR: [^\n]*|WARNINGS: \d+)\n?$/;
const TAIL_BYTES = 4_096;
const MAX_LINE_CHARS = 4_000;

/** Appends to one log. Lines of the same moment are written together; the file is open only while in use. */
export class TaskLogWriter implements TaskLog {
  onFirstUse: () => void = () => {};
  readonly #path: string;
  readonly #onFailure: (error: unknown) => void;
  readonly #onFinished: () => void;
  #file: FileHandle | undefined;
  #index: LineIndex | undefined;
  #pending: string[] = [];
  #writing: Promise<void> = Promise.resolve();
  #isUsed = false;
  #isFinished = false;
  #isWaiting = false;

  constructor(options: {
    readonly path: string;
    readonly onFailure: (error: unknown) => void;
    readonly onFinished: () => void;
  }) {
    this.#path = options.path;
    this.#onFailure = options.onFailure;
    this.#onFinished = options.onFinished;
  }

  get index(): LineIndex | undefined {
    return this.#index;
  }

  append(line: string): void {
    // Whoever still talks after the end is not heard: the last line stays the last.
    if (this.#isFinished) return;
    this.#pending.push(clean(line));
    this.#writeSoon();
  }

  flush(): Promise<void> {
    return this.#writing;
  }

  /** Until the next line the file is not open. */
  async close(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#closeFile());
    await this.#writing;
  }

  async finish(lastLine: string): Promise<void> {
    await this.flush();
    this.#isFinished = true;
    this.#use();
    this.#writing = this.#writing.then(() => this.#end(clean(lastLine)));
    await this.#writing;
    this.#onFinished();
  }

  #use(): void {
    if (!this.#isUsed) this.onFirstUse();
    this.#isUsed = true;
  }

  #writeSoon(): void {
    this.#use();
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    this.#writing = this.#writing.then(() => this.#writePending());
  }

  async #writePending(): Promise<void> {
    this.#isWaiting = false;
    const lines = this.#pending;
    this.#pending = [];
    try {
      await this.#write(lines);
    } catch (error) {
      this.#onFailure(error);
    }
  }

  async #end(lastLine: string): Promise<void> {
    try {
      const { file, index } = await this.#opened();
      if (!(await hasLastLine(file, index))) await this.#write([lastLine]);
    } catch (error) {
      this.#onFailure(error);
    }
    await this.#closeFile();
  }

  /** Not synced: the journal holds the truth, and writes the last line again should it be missing. */
  async #closeFile(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    this.#index = undefined;
    try {
      await file?.close();
    } catch (error) {
      this.#onFailure(error);
    }
  }

  async #write(lines: readonly string[]): Promise<void> {
    if (lines.length === 0) return;
    const { file, index } = await this.#opened();
    // A crash may have left half a line: end it before the next one.
    const bytes = Buffer.from(`${index.fed > index.bytes ? "\n" : ""}${lines.join("\n")}\n`);
    await file.writeFile(bytes);
    const before = index.offsets.length;
    if (index.feed(bytes) > 0) await writeFile(indexPath(this.#path), index.encode(before), { flag: "a" });
  }

  async #opened(): Promise<{ file: FileHandle; index: LineIndex }> {
    this.#file ??= await openForAppend(this.#path);
    if (this.#index === undefined) {
      this.#index = await LineIndex.load(this.#file, await readIndex(this.#path));
      // Written whole, not appended: entries that a crash kept back are put in their place.
      if (this.#index.offsets.length > 1) await writeFile(indexPath(this.#path), this.#index.encode());
    }
    return { file: this.#file, index: this.#index };
  }
}

async function hasLastLine(file: FileHandle, index: LineIndex): Promise<boolean> {
  const from = Math.max(0, index.fed - TAIL_BYTES);
  const buffer = Buffer.alloc(index.fed - from);
  await file.read(buffer, 0, buffer.length, from);
  return LAST_LINE.test(buffer.toString("utf8"));
}

function clean(line: string): string {
  const text = line.replace(/[\r\n]+/g, " ");
  return text.length > MAX_LINE_CHARS ? `${text.slice(0, MAX_LINE_CHARS)}...` : text;
}
