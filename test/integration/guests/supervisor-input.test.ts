// The supervisor's own armour: how it is linked, what it refuses, and that it waits for nobody without end.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { askSupervisor } from "@gpve/agent/infrastructure/supervisor/control.ts";
import { supervisorBinary } from "@gpve/agent/infrastructure/supervisor/build.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import { spawnReporting } from "@gpve/kit/spawn.ts";
import { root as repo } from "../../support/gpve.ts";
import { missingForGuests } from "./guest-world.ts";

const missing = missingForGuests();
if (missing !== undefined) console.warn(`SKIPPED the supervisor's armour: ${missing}`);

describe.skipIf(missing !== undefined)("the supervisor", () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-armour-"));
  const children: number[] = [];
  let binary: string;
  let specs = 0;

  beforeAll(async () => {
    binary = await supervisorBinary({
      sourceFolder: join(repo, "packages", "supervisor"),
      cacheFolder: join(repo, ".cache"),
    });
  });
  afterAll(() => {
    for (const pid of children) process.kill(pid, "SIGKILL");
    // Those that were killed may still be at it for a moment.
    rmSync(folder, { recursive: true, force: true, maxRetries: 20 });
  });

  /** The first line it says about a spec. */
  const start = async (words: readonly string[], program = ["/bin/sleep", "1000"]): Promise<string> => {
    const name = join(folder, `${++specs}`);
    const base = ["exec", program[0] ?? "", ...program.flatMap((arg) => ["arg", arg])];
    const files = ["state", `${name}.state`, "exit", `${name}.exit`, "control", `${name}.control`];
    writeFileSync(`${name}.spec`, [...base, ...files, ...words].map((word) => `${word}\0`).join(""));
    const line = await spawnReporting(binary, ["--data", folder, "--spec", `${name}.spec`], {
      timeoutMs: 40_000,
    });
    const pid = /^started (\d+)/.exec(line)?.[1];
    if (pid !== undefined) children.push(Number(pid));
    return line;
  };

  it("is position-independent, static, with read-only relocations and no executable stack", async () => {
    const { stdout } = await exec("readelf", ["--wide", "--file-header", "--segments", "--dynamic", binary]);
    expect(stdout).toMatch(/Type:\s+DYN/);
    expect(stdout).toMatch(/Flags: NOW PIE/);
    expect(stdout).toContain("GNU_RELRO");
    expect(stdout).toMatch(/GNU_STACK.* RW +0x/);
    expect(stdout).not.toMatch(/INTERP|NEEDED|TEXTREL/);
    expect(stdout).not.toMatch(/LOAD.* RWE /);
  });

  it.each([
    ["oom 1001", "an OOM score must be from -1000 to 1000"],
    ["uid -1", "a uid must be from 0 to 4294967294"],
    ["uid 4294967295", "a uid must be from 0 to 4294967294"],
    ["gid 1e3", "a gid is no number"],
    ["group  7", "a group is no number"],
    ["tap t br 70000 1 32", "an MTU must be from 0 to 65535"],
    ["tap t br 0 0 32", "a number of queues must be from 1 to 64"],
    ["tap t br 0 65 32", "a number of queues must be from 1 to 64"],
    ["tap t br 0 8 505", "a descriptor must be from 3 to 504"],
    ["tap a-name-of-16-chr br 0 1 32", "a tap has a bad name"],
    ["tap t a/b 0 1 32", "a bridge has a bad name"],
    ["vhost 512 32", "a number of vhost descriptors must be from 0 to 511"],
    ["listen /x 2", "a descriptor must be from 3 to 511"],
    ["open /x rw 99999999999999999999", "a descriptor must be from 3 to 511"],
    ["open /x wr 30", "neither ro nor rw"],
    ["bind /a /b rx", "neither ro nor rw"],
    ["tmpfs /tmp 64m,mode=0", "a tmpfs has no size"],
    ["limit nofile -5", "nofile must be from 0"],
    ["limit nofile many", "nofile is no number"],
    ["affinity 0-", "bad CPU list 0-"],
    ["affinity 2000", "bad CPU list 2000"],
    ["network other", "unknown network"],
    ["nonsense x", "the spec has an unknown directive"],
  ])("refuses '%s'", async (line, reason) => {
    // Two blanks stand for a word that begins with one.
    const words = line
      .replace("  ", " \u0001")
      .split(" ")
      .map((word) => word.replace("\u0001", " "));
    expect(await start(words)).toContain(`failed ${reason}`);
  });

  it("refuses requests out of range, and serves on when a client dribbles or says nothing", async () => {
    expect(await start([])).toMatch(/^started /);
    const control = join(folder, `${specs}.control`);
    const ask = (...words: string[]): Promise<string> =>
      askSupervisor(control, words, { clock: systemClock, timeoutMs: 30_000 });
    await expect(ask("kill", "0")).rejects.toThrow("a signal must be from 1 to 64");
    await expect(ask("kill", "-9")).rejects.toThrow("a signal must be from 1 to 64");
    await expect(ask("kill", "9x")).rejects.toThrow("a signal is no number");
    const tap = ["tap", "t", "", "0", "1", "0", "/nowhere", "{}"];
    await expect(ask(...tap.with(4, "65"))).rejects.toThrow("a number of queues must be from 1 to 64");
    await expect(ask(...tap.with(3, "-1"))).rejects.toThrow("an MTU must be from 0 to 65535");
    await expect(ask(...tap.with(1, "x".repeat(16)))).rejects.toThrow("a tap has a bad name");
    const slow = connect(control);
    slow.on("error", () => undefined);
    slow.write("p");
    const dribble = setInterval(() => slow.write("i"), 1_000);
    const asked = Date.now();
    expect(await ask("ping")).toMatch(/^\d+$/);
    clearInterval(dribble);
    slow.destroy();
    expect(Date.now() - asked).toBeLessThan(25_000);
  });

  it("gives up a start that waits for a file, and leaves nothing of it", async () => {
    const fifo = join(folder, "fifo");
    await exec("mkfifo", [fifo]);
    const asked = Date.now();
    expect(await start(["open", fifo, "ro", "30"])).toContain("failed the start took too long");
    expect(Date.now() - asked).toBeLessThan(29_000);
  });
});
