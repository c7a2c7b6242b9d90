import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Exec } from "@gpve/kit/exec.ts";
import { afterEach, beforeEach, expect, test } from "vitest";
import { HostLog } from "./host-log.ts";

let dir = "";
let calls: string[] = [];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "gpve-log-"));
  calls = [];
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** A journalctl that prints these lines. */
const printing =
  (...lines: string[]): Exec =>
  async (file, args, options) => {
    calls.push([file, ...args].join(" "));
    for (const line of lines) options?.onLine?.(line, "stdout");
    options?.onLine?.("Hint: you may not see everything", "stderr");
    return { code: 0, stdout: "", stderr: "" };
  };
const withJournal = (exec: Exec): HostLog => {
  mkdirSync(join(dir, "journal/machine"), { recursive: true });
  return new HostLog({ exec, node: "n1", ownLog: join(dir, "none"), journals: [join(dir, "journal")] });
};
const ownOnly = (...lines: string[]): HostLog => {
  writeFileSync(join(dir, "gpve.jsonl"), lines.map((line) => `${line}\n`).join(""));
  return new HostLog({
    exec: printing("from nowhere"),
    node: "n1",
    ownLog: join(dir, "gpve.jsonl"),
    journals: [join(dir, "no-journal")],
  });
};
const linesOf = async (log: HostLog, query: Parameters<HostLog["lines"]>[0] = {}): Promise<string[]> => {
  const found: string[] = [];
  await log.lines(query, (line) => found.push(line));
  return found;
};
const local = (text: string): string => new Date(text).toISOString();

test("passes on the journal's lines, and what was asked as arguments of their own", async () => {
  const log = withJournal(printing("Jan 01 a", "", "Jan 01 b"));
  expect(await linesOf(log)).toEqual(["Jan 01 a", "Jan 01 b"]);
  await linesOf(log, { since: "2026-01-01 10:00", until: "2026-01-02", service: "--vacuum-size=1" });
  expect(calls).toEqual([
    "journalctl -o short --no-pager --quiet",
    "journalctl -o short --no-pager --quiet --unit=--vacuum-size=1 --since=2026-01-01 10:00 --until=2026-01-02",
  ]);
});

test("entries come oldest first, with their cursors, and end at those that were asked for", async () => {
  const at = new Date("2026-01-02T03:04:05").getTime() * 1_000;
  const entry = (cursor: string, fields: Readonly<Record<string, unknown>>): string =>
    JSON.stringify({ __CURSOR: cursor, __REALTIME_TIMESTAMP: String(at), _HOSTNAME: "h", ...fields });
  const log = withJournal(
    printing(
      entry("c3", { SYSLOG_IDENTIFIER: "sshd", _PID: "7", MESSAGE: [104, 105] }),
      "-- no JSON --",
      entry("c2", { _COMM: "kernel", MESSAGE: "two" }),
      entry("c1", { MESSAGE: "one" }),
    ),
  );
  const three = [
    { cursor: "c1", line: "Jan 02 03:04:05 h unknown: one" },
    { cursor: "c2", line: "Jan 02 03:04:05 h kernel: two" },
    { cursor: "c3", line: "Jan 02 03:04:05 h sshd[7]: hi" },
  ];
  expect(await log.entries({ lastEntries: 5, since: 1, until: 2_000_000_000 })).toEqual(three);
  expect(await log.entries({ after: "c1" })).toEqual(three.slice(1));
  expect(await log.entries({ before: "c3", lastEntries: 2, since: 1 })).toEqual(three.slice(0, 2));
  expect(await log.entries({ before: "c3", since: at / 1_000_000 + 1 })).toEqual([]);
  expect(calls[0]).toBe(
    "journalctl -o json --all --no-pager --quiet --reverse --lines=5 --since=@1 --until=@2000000000",
  );
  expect(calls[2]).toBe("journalctl -o json --all --no-pager --quiet --reverse --cursor=c3 --lines=3");
});

test("where no journal is kept, shows what gpve wrote itself", async () => {
  const log = ownOnly(
    JSON.stringify({
      level: "info",
      timestamp: local("2026-01-02T03:04:05"),
      component: "gpve",
      message: "ready",
    }),
    '{"cut off',
    JSON.stringify({ timestamp: local("2026-01-03T00:00:00"), component: "agent", vmid: 7, message: "gone" }),
  );
  const both = ["Jan 02 03:04:05 n1 gpve: ready", 'Jan 03 00:00:00 n1 agent: gone {"vmid":7}'];
  expect(await linesOf(log)).toEqual(both);
  expect(await linesOf(log, { since: "2026-01-02 04:00" })).toEqual(both.slice(1));
  expect(await linesOf(log, { until: "2026-01-03", service: "gpve" })).toEqual(both);
  expect(await linesOf(log, { since: "2026-01-04" })).toEqual([]);
  expect(await linesOf(log, { service: "cron" })).toEqual([]);
  expect(calls).toEqual([]);
  expect(await log.entries({})).toEqual([
    { cursor: "l=0", line: both[0] },
    { cursor: "l=2", line: both[1] },
  ]);
  expect(await log.entries({ lastEntries: 1 })).toMatchObject([{ cursor: "l=2" }]);
  expect(await log.entries({ after: "l=0" })).toMatchObject([{ cursor: "l=2" }]);
  expect(await log.entries({ before: "l=2", lastEntries: 9 })).toMatchObject([{ cursor: "l=0" }]);
  rmSync(join(dir, "gpve.jsonl"));
  expect(await log.entries({})).toEqual([]);
});
