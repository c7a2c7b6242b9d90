// A round-robin archive in one file of constant size: samples go in every few seconds, and what comes out are
// evenly spaced rows for a graph of the last hour, day, week, month, year or decade.
//
//   samples -> minutes (1440 rows) -> half hours (1440) -> quarter days (1440) -> weeks (570)
//
// A row of one level is made of the rows of the level before it and rewritten in place while it grows, so the
// only state in memory is the present minute: a crash loses that and nothing else. Rows carry their own time; a
// slot whose time is not the expected one is empty.
import { closeSync, fstatSync, ftruncateSync, openSync, readSync, renameSync, writeSync } from "node:fs";
import { AppError } from "@gpve/contracts/errors.ts";

export interface RrdSource {
  readonly name: string;
  /** A counter only grows; its rate per second is kept. */
  readonly kind: "gauge" | "counter";
}

export type RrdTimeframe = "hour" | "day" | "week" | "month" | "year" | "decade";
export type RrdConsolidation = "AVERAGE" | "MAX";
export type RrdRow = Readonly<Record<string, number>> & { readonly time: number };

interface Level {
  readonly stepSeconds: number;
  readonly rows: number;
}

const LEVELS: readonly Level[] = [
  { stepSeconds: 60, rows: 1_440 },
  { stepSeconds: 1_800, rows: 1_440 },
  { stepSeconds: 21_600, rows: 1_440 },
  { stepSeconds: 604_800, rows: 570 },
];
const WINDOWS = {
  hour: { level: 0, rows: 70 },
  day: { level: 0, rows: 1_440 },
  week: { level: 1, rows: 336 },
  month: { level: 1, rows: 1_440 },
  year: { level: 2, rows: 1_440 },
  decade: { level: 3, rows: 570 },
} as const satisfies Record<RrdTimeframe, { level: number; rows: number }>;

const MAGIC = "gpve-rrd 1\n";
const HEADER_BYTES = 4_096;
/** Two samples further apart than this tell nothing about the time between them. */
const HEARTBEAT_SECONDS = 300;

interface Row {
  readonly time: number;
  readonly average: Float64Array;
  readonly max: Float64Array;
}

export class RrdFile {
  readonly #fd: number;
  readonly #sources: readonly RrdSource[];
  readonly #counters = new Map<string, { value: number; at: number }>();
  #minute: { start: number; sum: Float64Array; count: Float64Array; max: Float64Array } | undefined;
  #lastAt = Number.NEGATIVE_INFINITY;

  private constructor(fd: number, sources: readonly RrdSource[]) {
    this.#fd = fd;
    this.#sources = sources;
  }

  /** Opens or makes the file. When the list of sources has changed, what both lists know is carried over. */
  static open(path: string, sources: readonly RrdSource[]): RrdFile {
    const header = headerOf(sources);
    const fd = openSync(path, "a+");
    closeSync(fd);
    const existing = openSync(path, "r+");
    const size = fstatSync(existing).size;
    if (size === 0) {
      initialise(existing, header, sources.length);
      return new RrdFile(existing, sources);
    }
    const known = readHeader(existing, size);
    if (known !== undefined && JSON.stringify(known) === JSON.stringify(sources))
      return new RrdFile(existing, sources);
    const fresh = openSync(`${path}.new`, "w+");
    initialise(fresh, header, sources.length);
    const next = new RrdFile(fresh, sources);
    if (known !== undefined) next.#copyFrom(new RrdFile(existing, known));
    closeSync(existing);
    renameSync(`${path}.new`, path);
    return next;
  }

  /** Adds a sample. What is absent or not finite is unknown. Samples out of order are ignored. */
  update(atMs: number, values: Readonly<Record<string, number | undefined>>): void {
    const at = atMs / 1_000;
    if (at <= this.#lastAt) return;
    this.#lastAt = at;
    const start = Math.floor(at / 60) * 60;
    if (this.#minute !== undefined && this.#minute.start !== start) this.flush();
    this.#minute ??= emptyMinute(start, this.#sources.length);
    for (const [index, source] of this.#sources.entries()) {
      const value = this.#reading(source, values[source.name], at);
      if (value === undefined) continue;
      this.#minute.sum[index] = (this.#minute.sum[index] ?? 0) + value;
      this.#minute.count[index] = (this.#minute.count[index] ?? 0) + 1;
      this.#minute.max[index] = Math.max(this.#minute.max[index] ?? Number.NaN, value);
      if (this.#minute.count[index] === 1) this.#minute.max[index] = value;
    }
  }

  /** Writes the present minute, finished or not, and what follows from it. */
  flush(): void {
    const minute = this.#minute;
    if (minute === undefined) return;
    this.#minute = undefined;
    const average = minute.sum.map((sum, index) => sum / (minute.count[index] ?? 0));
    this.#writeRow(0, { time: minute.start, average, max: minute.max });
    for (let level = 1; level < LEVELS.length; level++) this.#consolidate(level, minute.start);
  }

  /** Evenly spaced rows up to now; a row without values is a gap. */
  rows(timeframe: RrdTimeframe, consolidation: RrdConsolidation, nowMs: number): RrdRow[] {
    const window = WINDOWS[timeframe];
    const { stepSeconds } = levelAt(window.level);
    const last = Math.floor(nowMs / 1_000 / stepSeconds) * stepSeconds;
    const found = this.#readRows(window.level, last - (window.rows - 1) * stepSeconds, window.rows);
    return found.map((row, index) => {
      const time = last - (window.rows - 1 - index) * stepSeconds;
      const values = consolidation === "MAX" ? row?.max : row?.average;
      const known = this.#sources.flatMap((source, column): [string, number][] => {
        const value = values?.[column];
        return value === undefined || Number.isNaN(value) ? [] : [[source.name, value]];
      });
      return { ...Object.fromEntries(known), time };
    });
  }

  close(): void {
    this.flush();
    closeSync(this.#fd);
  }

  #reading(source: RrdSource, value: number | undefined, at: number): number | undefined {
    if (value === undefined || !Number.isFinite(value)) return undefined;
    if (source.kind === "gauge") return value;
    const before = this.#counters.get(source.name);
    this.#counters.set(source.name, { value, at });
    // A counter that went back was reset; nobody knows by how much it grew.
    if (before === undefined || value < before.value || at - before.at > HEARTBEAT_SECONDS) return undefined;
    return (value - before.value) / (at - before.at);
  }

  #consolidate(level: number, at: number): void {
    const { stepSeconds } = levelAt(level);
    const finer = levelAt(level - 1);
    const start = Math.floor(at / stepSeconds) * stepSeconds;
    const rows = this.#readRows(level - 1, start, stepSeconds / finer.stepSeconds);
    const columns = this.#sources.length;
    const average = new Float64Array(columns).fill(Number.NaN);
    const max = new Float64Array(columns).fill(Number.NaN);
    for (let column = 0; column < columns; column++) {
      let [sum, known, highest] = [0, 0, Number.NEGATIVE_INFINITY];
      for (const row of rows) {
        const value = row?.average[column] ?? Number.NaN;
        if (Number.isNaN(value)) continue;
        sum += value;
        known++;
        highest = Math.max(highest, row?.max[column] ?? Number.NEGATIVE_INFINITY);
      }
      if (known === 0) continue;
      average[column] = sum / known;
      max[column] = highest;
    }
    this.#writeRow(level, { time: start, average, max });
  }

  #writeRow(level: number, row: Row): void {
    const bytes = new Float64Array([row.time, ...row.average, ...row.max]);
    writeSync(this.#fd, new Uint8Array(bytes.buffer), 0, bytes.byteLength, this.#offset(level, row.time));
  }

  /** Slots in order; undefined where nothing was written for that time. Only these are read: a level is much longer. */
  #readRows(level: number, start: number, count: number): (Row | undefined)[] {
    const { stepSeconds } = levelAt(level);
    const columns = this.#sources.length;
    const width = 1 + 2 * columns;
    const found = this.#readSlots(level, slotOf(level, start), count);
    return Array.from({ length: count }, (_, index) => {
      const time = start + index * stepSeconds;
      const at = index * width;
      if (found[at] !== time || time <= 0) return undefined;
      return {
        time,
        average: found.subarray(at + 1, at + 1 + columns),
        max: found.subarray(at + 1 + columns, at + width),
      };
    });
  }

  /** From a slot on, round the end of the level. */
  #readSlots(level: number, first: number, count: number): Float64Array {
    const width = 1 + 2 * this.#sources.length;
    const { rows } = levelAt(level);
    const found = new Float64Array(count * width);
    const bytes = new Uint8Array(found.buffer);
    const begin = HEADER_BYTES + levelStart(level, this.#sources.length);
    const beforeEnd = Math.min(count, rows - first) * width * 8;
    readSync(this.#fd, bytes, 0, beforeEnd, begin + first * width * 8);
    if (beforeEnd < bytes.length) readSync(this.#fd, bytes, beforeEnd, bytes.length - beforeEnd, begin);
    return found;
  }

  #copyFrom(old: RrdFile): void {
    const columns = this.#sources.map((source) =>
      old.#sources.findIndex((other) => other.name === source.name && other.kind === source.kind),
    );
    const move = (values: Float64Array): Float64Array =>
      Float64Array.from(columns, (column) => values[column] ?? Number.NaN);
    for (const [level, { rows, stepSeconds }] of LEVELS.entries()) {
      const times = old.#times(level);
      const newest = Math.max(...times);
      if (newest <= 0) continue;
      for (const row of old.#readRows(level, newest - (rows - 1) * stepSeconds, rows)) {
        if (row !== undefined)
          this.#writeRow(level, { time: row.time, average: move(row.average), max: move(row.max) });
      }
    }
  }

  #times(level: number): Float64Array {
    const width = 1 + 2 * this.#sources.length;
    const { rows } = levelAt(level);
    const whole = this.#readSlots(level, 0, rows);
    return Float64Array.from({ length: rows }, (_, row) => whole[row * width] ?? 0);
  }

  #offset(level: number, time: number): number {
    const rowBytes = 8 * (1 + 2 * this.#sources.length);
    return HEADER_BYTES + levelStart(level, this.#sources.length) + slotOf(level, time) * rowBytes;
  }
}

function levelAt(level: number): Level {
  const found = LEVELS[level];
  if (found === undefined) throw new AppError("internal.error", `no archive level ${level}`);
  return found;
}

function slotOf(level: number, time: number): number {
  const { stepSeconds, rows } = levelAt(level);
  return (((time / stepSeconds) % rows) + rows) % rows;
}

function levelStart(level: number, columns: number): number {
  const rowBytes = 8 * (1 + 2 * columns);
  return LEVELS.slice(0, level).reduce((sum, { rows }) => sum + rows * rowBytes, 0);
}

function emptyMinute(start: number, columns: number) {
  return {
    start,
    sum: new Float64Array(columns),
    count: new Float64Array(columns),
    max: new Float64Array(columns).fill(Number.NaN),
  };
}

function headerOf(sources: readonly RrdSource[]): Buffer {
  const header = Buffer.alloc(HEADER_BYTES, 0x20);
  const text = `${MAGIC}${JSON.stringify(sources)}\n`;
  if (Buffer.byteLength(text) > HEADER_BYTES) {
    throw new AppError("internal.error", `too many data sources for one archive (${sources.length})`);
  }
  header.write(text);
  return header;
}

function initialise(fd: number, header: Buffer, columns: number): void {
  ftruncateSync(fd, HEADER_BYTES + levelStart(LEVELS.length, columns));
  writeSync(fd, header, 0, header.length, 0);
}

/** undefined: not one of our files, or cut short. It is replaced: statistics are not worth a refusal to start. */
function readHeader(fd: number, size: number): readonly RrdSource[] | undefined {
  const header = Buffer.alloc(HEADER_BYTES);
  readSync(fd, header, 0, HEADER_BYTES, 0);
  const [magic, json = ""] = header.toString("utf8").split("\n");
  if (`${magic ?? ""}\n` !== MAGIC) return undefined;
  try {
    const sources = JSON.parse(json) as readonly RrdSource[];
    return size === HEADER_BYTES + levelStart(LEVELS.length, sources.length) ? sources : undefined;
  } catch {
    return undefined;
  }
}
