// The host's log: systemd's journal where there is one, else what gpve itself wrote.
import { readdirSync } from "node:fs";
import { given } from "@gpve/contracts/given.ts";
import { ignore } from "@gpve/kit/background.ts";
import { readFileTail } from "@gpve/kit/file-tail.ts";
import type { Exec } from "@gpve/kit/exec.ts";

export interface LogQuery {
  /** As journalctl takes them: "2026-01-31 12:00", "@1700000000". */
  readonly since?: string;
  readonly until?: string;
  readonly service?: string;
}

export interface EntryQuery {
  /** Seconds since the epoch. */
  readonly since?: number;
  readonly until?: number;
  readonly lastEntries?: number;
  /** Only what comes after, or before, the entry with that cursor. */
  readonly after?: string;
  readonly before?: string;
}

export interface LogEntry {
  readonly cursor: string;
  readonly line: string;
}

export interface HostLogDeps {
  readonly exec: Exec;
  readonly node: string;
  /** gpve's own log, one JSON object a line. */
  readonly ownLog: string;
  /** Where journald keeps what it has. */
  readonly journals?: readonly string[];
}

type Fields = Readonly<Record<string, unknown>>;

const JOURNALS = ["/var/log/journal", "/run/log/journal"];
const READ_MS = 60_000;
/** Of a journal without bounds, the newest. */
const MAX_ENTRIES = 20_000;
/** Of our own log. */
const MOST_BYTES = 8 * 1024 * 1024;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export class HostLog {
  readonly #deps: HostLogDeps;

  constructor(deps: HostLogDeps) {
    this.#deps = deps;
  }

  /** Hands every line to `onLine`, oldest first. */
  async lines(query: LogQuery, onLine: (line: string) => void, signal?: AbortSignal): Promise<void> {
    if (!this.#hasJournal()) {
      if (query.service === undefined || query.service.startsWith("gpve"))
        for (const { line } of this.#own(asSeconds(query.since), asSeconds(query.until))) onLine(line);
      return;
    }
    const { since, until, service } = query;
    const args = ["-o", "short", "--no-pager", "--quiet"];
    if (service !== undefined) args.push(`--unit=${service}`);
    if (since !== undefined) args.push(`--since=${since}`);
    if (until !== undefined) args.push(`--until=${until}`);
    await this.#journalctl(args, onLine, signal);
  }

  async entries(query: EntryQuery, signal?: AbortSignal): Promise<readonly LogEntry[]> {
    if (!this.#hasJournal()) return cut(this.#own(query.since, query.until), query);
    const { since, until, after, before, lastEntries = MAX_ENTRIES } = query;
    // Backwards, so that the newest of too many are the ones that are seen; the entry of the cursor itself comes too.
    // All of it: of a long message there would be nothing otherwise.
    const args = ["-o", "json", "--all", "--no-pager", "--quiet", "--reverse"];
    if (before === undefined) args.push(`--lines=${lastEntries}`);
    else args.push(`--cursor=${before}`, `--lines=${lastEntries + 1}`);
    // journalctl takes a cursor or a time to start from, not both.
    if (since !== undefined && before === undefined) args.push(`--since=@${since}`);
    if (until !== undefined) args.push(`--until=@${until}`);
    const found: LogEntry[] = [];
    let isPast = false;
    const onLine = (line: string): void => {
      const fields = parsed(line);
      const cursor = fields["__CURSOR"];
      if (typeof cursor !== "string") return;
      isPast ||= cursor === after || Number(fields["__REALTIME_TIMESTAMP"]) < (since ?? 0) * 1_000_000;
      if (!isPast && cursor !== before) found.push({ cursor, line: journalLine(fields) });
    };
    await this.#journalctl(args, onLine, signal);
    return found.toReversed();
  }

  async #journalctl(
    args: readonly string[],
    onLine: (line: string) => void,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#deps.exec("journalctl", args, {
      timeoutMs: READ_MS,
      keepOutput: false,
      onLine: (line, stream) => {
        if (stream === "stdout" && line !== "") onLine(line);
      },
      ...given({ signal }),
    });
  }

  #hasJournal(): boolean {
    return (this.#deps.journals ?? JOURNALS).some((folder) => {
      try {
        return readdirSync(folder).length > 0;
      } catch (err) {
        ignore(err, "journald keeps one of them, or none runs here");
        return false;
      }
    });
  }

  #own(since = 0, until = Number.POSITIVE_INFINITY): readonly LogEntry[] {
    let text = "";
    try {
      text = readFileTail(this.#deps.ownLog, MOST_BYTES);
    } catch (err) {
      ignore(err, "an agent that logs to its standard error has no file");
    }
    return text.split("\n").flatMap((line, index) => {
      if (line === "") return [];
      const { timestamp, message, component, level: _level, ...rest } = parsed(line);
      const at = Date.parse(String(timestamp));
      if (Number.isNaN(at) || at < since * 1_000 || at > until * 1_000) return [];
      const more = Object.keys(rest).length === 0 ? "" : ` ${JSON.stringify(rest)}`;
      const shown = `${stamp(at)} ${this.#deps.node} ${String(component)}: ${String(message)}${more}`;
      return [{ cursor: `l=${index}`, line: shown }];
    });
  }
}

function cut(all: readonly LogEntry[], { after, before, lastEntries }: EntryQuery): readonly LogEntry[] {
  const from = after === undefined ? 0 : all.findIndex(({ cursor }) => cursor === after) + 1;
  const end = before === undefined ? -1 : all.findIndex(({ cursor }) => cursor === before);
  const between = all.slice(from, end === -1 ? all.length : end);
  return lastEntries === undefined ? between : between.slice(Math.max(0, between.length - lastEntries));
}

function parsed(line: string): Fields {
  try {
    return JSON.parse(line) as Fields;
  } catch (err) {
    ignore(err, "a line cut off by a full disk, or a remark of journalctl");
    return {};
  }
}

/** As `journalctl -o short` prints it. */
function journalLine(fields: Fields): string {
  const text = (key: string): string => {
    const value = fields[key];
    // What is no text comes as a list of bytes.
    if (Array.isArray(value)) return Buffer.from(value as number[]).toString("utf8");
    return typeof value === "string" ? value : "";
  };
  const who = text("SYSLOG_IDENTIFIER") || text("_COMM") || "unknown";
  const pid = text("SYSLOG_PID") || text("_PID");
  const at = Number(fields["__REALTIME_TIMESTAMP"]) / 1_000;
  return `${stamp(at)} ${text("_HOSTNAME")} ${who}${pid === "" ? "" : `[${pid}]`}: ${text("MESSAGE")}`;
}

/** "Jan 02 03:04:05" in the host's time. */
function stamp(at: number): string {
  const date = new Date(at);
  const two = (value: number): string => String(value).padStart(2, "0");
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return `${MONTHS[date.getMonth()]} ${two(date.getDate())} ${time}`;
}

function asSeconds(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const at = Date.parse(text.includes(" ") ? text.replace(" ", "T") : `${text}T00:00`);
  return Number.isNaN(at) ? undefined : at / 1_000;
}
