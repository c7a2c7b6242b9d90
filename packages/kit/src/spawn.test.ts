import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { getPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, test, vi } from "vitest";
import { spawnConnection, spawnDetached, spawnPiped, spawnReporting } from "./spawn.ts";
import { beginUrgentWork } from "./urgent-work.ts";

describe("a process that reports when it is ready", () => {
  it("gives its first line and runs on", async () => {
    const line = await spawnReporting("/bin/sh", ["-c", "echo started $$; exec sleep 0.3"], {
      timeoutMs: 5_000,
    });
    expect(line).toMatch(/^started \d+$/);
    process.kill(Number(line.split(" ")[1]), 0);
  });

  it("is told apart from one that ends without a word, is silent, or is not there", async () => {
    await expect(spawnReporting("/bin/true", [], { timeoutMs: 5_000 })).rejects.toThrow("without a word");
    await expect(spawnReporting("/bin/sleep", ["10"], { timeoutMs: 50 })).rejects.toThrow("said nothing");
    await expect(spawnReporting("/no/such", [], { timeoutMs: 50, env: {} })).rejects.toThrow("ENOENT");
  });
});

test("a process that is talked to ends with its input, and one that cannot start has ended", async () => {
  const cat = spawnPiped("/bin/cat", []);
  cat.input.write("hello");
  const heard: string[] = [];
  for await (const chunk of cat.output) {
    heard.push(String(chunk));
    cat.input.end();
  }
  await cat.ended;
  expect(heard.join("")).toBe("hello");
  const sleep = spawnPiped("/bin/sleep", ["100"], { env: {} });
  sleep.kill();
  await sleep.ended;
  await spawnPiped("/nowhere", []).ended;
});

test("a process is one connection: what it is told comes back, and it ends with it", async () => {
  const cat = spawnConnection("/bin/cat", []);
  cat.write("hello");
  const [heard] = (await once(cat, "data")) as [Buffer];
  expect(heard.toString()).toBe("hello");
  cat.end();
  await once(cat, "close");
  const nobody = spawnConnection("/nowhere", [], { env: {} });
  nobody.resume();
  await once(nobody, "close");
  expect(nobody.bytesRead).toBe(0);
});

test.skipIf(process.getuid?.() !== 0)("a process goes before others for good, or is as all are", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-spawn-"));
  const usual = getPriority();
  const done = beginUrgentWork();
  try {
    const first = join(folder, "first");
    const plain = join(folder, "plain");
    spawnDetached("nice", [], { logFile: first, priority: -10 });
    spawnDetached("nice", [], { logFile: plain });
    await vi.waitFor(() => expect([said(first), said(plain)]).toEqual(["-10\n", `${usual}\n`]), {
      timeout: 30_000,
    });
    expect(getPriority()).toBe(Math.min(usual, -5));
  } finally {
    done();
    rmSync(folder, { recursive: true, force: true });
  }
});

function said(file: string): string {
  return readFileSync(file, "utf8");
}
