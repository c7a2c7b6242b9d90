import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { readJsonFile, writeFileAtomic } from "./atomic-file.ts";
import { openDataDir } from "./data-dir.ts";
import { identify, isAlive } from "./process-identity.ts";
import { acquireProcessLock } from "./process-lock.ts";
import { spawnDetached } from "./spawn.ts";

const dir = mkdtempSync(join(tmpdir(), "gpve-kit-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test("tells this process from another with the same pid", () => {
  const self = identify(process.pid);
  if (self === undefined) throw new Error("this process exists");
  expect(isAlive(self)).toBe(true);
  expect(isAlive({ ...self, startTime: "1" })).toBe(false);
  expect(identify(2 ** 22 + 1)).toBeUndefined();
});

test("keeps a second process out and forgives a dead holder", () => {
  const path = join(dir, "lock");
  const lock = acquireProcessLock(path);
  expect(() => acquireProcessLock(path)).toThrow(
    `another gpve (process ${process.pid}) already uses this data directory`,
  );
  lock.release();
  writeFileSync(path, JSON.stringify({ bootId: "x", pid: 1, startTime: "0" }));
  acquireProcessLock(path).release();
  writeFileSync(path, "{half");
  acquireProcessLock(path).release();
});

test("writes files whole and private", () => {
  const path = join(dir, "file.json");
  writeFileAtomic(path, '{"a":1}');
  writeFileAtomic(path, Buffer.from('{"a":2}'));
  expect(readJsonFile(path)).toEqual({ a: 2 });
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readJsonFile(join(dir, "nothing"))).toBeUndefined();
  mkdirSync(join(dir, "folder"));
  expect(() => writeFileAtomic(join(dir, "folder"), "x")).toThrow("EISDIR");
  expect(readdirSync(dir).filter((name) => name.includes(".tmp-"))).toEqual([]);
});

test("keeps a data directory's identity and refuses one of a newer version", () => {
  const path = join(dir, "data");
  const first = openDataDir(path);
  expect(openDataDir(path).instanceId).toBe(first.instanceId);
  expect(first.instanceId).toMatch(/^[0-9a-f]{6}$/);
  expect(statSync(first.file("secrets")).mode & 0o777).toBe(0o700);
  writeFileSync(first.file("instance.json"), JSON.stringify({ version: 999, instanceId: "abcdef" }));
  expect(() => openDataDir(path)).toThrow(/written by a newer gpve/);
  writeFileSync(join(dir, "plain-file"), "");
  expect(() => openDataDir(join(dir, "plain-file"))).toThrow(/cannot use .* as data directory/);
});

test("starts a process that is not a child in our session", async () => {
  const log = join(dir, "out.log");
  const pid = spawnDetached("/bin/sh", ["-c", "echo hello $1; exec sleep 30", "sh", "world"], {
    logFile: log,
    env: { PATH: "/bin" },
    cwd: "/",
  });
  try {
    for (let wait = 0; wait < 100 && !readFileSync(log, "utf8").includes("hello"); wait++) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(readFileSync(log, "utf8")).toBe("hello world\n");
    const session = readFileSync(`/proc/${pid}/stat`, "utf8").split(" ")[5];
    expect(session).toBe(String(pid));
  } finally {
    process.kill(pid, "SIGKILL");
  }
});
