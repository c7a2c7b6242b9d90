// Where a run's time went: said at its end, so that whoever adds a minute sees it.
import { cpus } from "node:os";

export interface FileTime {
  readonly file: string;
  readonly ms: number;
}

interface PartTime {
  readonly name: string;
  readonly ms: number;
  /** How much of the processors' time was used, by whomever. Much less than all: files wait for something. */
  readonly busy: number;
  /** It ran beside others of the part that follows, whose time counts. */
  readonly isBeside: boolean;
}

/** All processors' milliseconds since the machine started. */
export interface ProcessorTimes {
  readonly idle: number;
  readonly all: number;
}

export function processorTimes(): ProcessorTimes {
  let idle = 0;
  let all = 0;
  for (const { times } of cpus()) {
    idle += times.idle;
    for (const each of Object.values(times)) all += each;
  }
  return { idle, all };
}

export class RunTimes {
  readonly #now: () => number;
  readonly #processors: () => ProcessorTimes;
  readonly #parts: PartTime[] = [];
  readonly #files: FileTime[] = [];

  constructor(now = (): number => performance.now(), processors = processorTimes) {
    this.#now = now;
    this.#processors = processors;
  }

  /** A part begins; call what is returned when it ends. */
  begin(name: string, isBeside = false): () => void {
    const started = this.#now();
    const before = this.#processors();
    return () => {
      const after = this.#processors();
      const all = after.all - before.all;
      const busy = all > 0 ? 1 - (after.idle - before.idle) / all : 0;
      this.#parts.push({ name, ms: this.#now() - started, busy, isBeside });
    };
  }

  add(files: readonly FileTime[]): void {
    this.#files.push(...files);
  }

  /** Each part, the whole, and the slowest files. */
  lines(slowest = 30): string[] {
    const all = this.#parts.reduce((sum, { ms, isBeside }) => (isBeside ? sum : sum + ms), 0);
    return [
      "times:",
      ...this.#parts.map(
        ({ name, ms, busy, isBeside }) =>
          `  ${minutes(ms)}  ${name} (${isBeside ? "beside each other" : `processors ${Math.round(busy * 100)} % busy`})`,
      ),
      `  ${minutes(all)}  in all`,
      ...this.#files
        .toSorted((a, b) => b.ms - a.ms)
        .slice(0, slowest)
        .map(({ file, ms }) => `  ${minutes(ms)}  ${file}`),
    ];
  }
}

function minutes(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  return `${String(Math.floor(seconds / 60)).padStart(3)}:${String(seconds % 60).padStart(2, "0")}`;
}
