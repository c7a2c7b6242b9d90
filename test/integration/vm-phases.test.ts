// The life of a VM as somebody sees it who watches: every phase in the order of the table, on a real QEMU.
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import { vmPhases } from "@gpve/domain/phase/vm-phases.ts";
import { exec } from "@gpve/kit/exec.ts";
import { mainFile, nodeBinary, startGpve, type Gpve } from "../support/gpve.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

let gpve: Gpve;
const seen: string[] = [];
const stop = new AbortController();
let watching: Promise<unknown>;
let watches: Promise<void>;

const ctl = async (...words: readonly string[]): Promise<string> => {
  const run = [mainFile, "ctl", "--data", gpve.data, ...words];
  const { stdout, stderr } = await exec(nodeBinary, run, { okCodes: [0, 1, 2, 3, 4, 5, 6, 7] });
  return stdout + stderr;
};

beforeAll(async () => {
  if (!hasQemu) return;
  gpve = await startGpve({ args: ["--no-network"] });
  const { promise, resolve } = Promise.withResolvers<void>();
  watches = promise;
  const argv = [mainFile, "ctl", "--data", gpve.data, "get", "vm", "-w", "-o", "json"];
  watching = exec(nodeBinary, argv, {
    signal: stop.signal,
    timeoutMs: 600_000,
    onLine: (line) => {
      resolve();
      if (!line.startsWith("{")) return;
      const { type, object } = JSON.parse(line) as { readonly type: string; readonly object: V1Object };
      const phase = String(object.status?.["phase"]);
      if (type === "DELETED") seen.push("gone");
      else if (seen.at(-1) !== phase) seen.push(phase);
    },
  }).catch(() => undefined);
});
afterAll(async () => {
  stop.abort();
  await watching;
  if (hasQemu) await gpve.stop();
});

describe.skipIf(!hasQemu)("a VM's life", () => {
  test("is shown phase by phase, as the table allows, with an event for each turn", async () => {
    // The first VM makes the watch say something: from then on nothing is missed.
    await ctl("vm", "create", "--vmid", "900", "--memory", "64");
    await watches;
    await expect.poll(() => seen.at(-1)).toBe("Stopped");
    await ctl("vm", "delete", "900");
    await expect.poll(() => seen.at(-1)).toBe("gone");
    seen.splice(0);

    expect(await ctl("vm", "create", "--vmid", "100", "--memory", "64", "--disk", "1")).toContain("100");
    await ctl("vm", "start", "100");
    await ctl("vm", "pause", "100");
    await ctl("vm", "resume", "100");
    await ctl("vm", "reset", "100");
    await ctl("vm", "stop", "100");
    // A disk that is gone, and back: Failed, and both ways out of it.
    rmSync(join(gpve.data, "storage/local/images/100/vm-100-disk-0.qcow2"));
    expect(await ctl("vm", "start", "100")).toContain("cannot start VM 100");
    expect(await ctl("vm", "retry", "100")).toContain("cannot retry VM 100");
    expect(await ctl("vm", "reset-state", "100")).toContain("VM 100 is Stopped.");
    expect(await ctl("vm", "reset-state", "100")).toContain("has not failed: it is Stopped");
    await ctl("vm", "delete", "100");
    await expect.poll(() => seen.at(-1)).toBe("gone");

    expect(seen).toEqual([
      "Creating",
      "Stopped",
      "Starting",
      "Running",
      "Paused",
      "Running",
      "Rebooting",
      "Running",
      "Stopping",
      "Stopped",
      "Starting",
      "Failed",
      "Stopped",
      "Starting",
      "Failed",
      "Stopped",
      "Deleting",
      "gone",
    ]);
    const edges = vmPhases.transitions.map(({ from, to }) => `${from} ${to}`);
    const steps = seen.slice(1, -1).map((phase, at) => `${seen[at] ?? ""} ${phase}`);
    expect(steps.filter((step) => !edges.includes(step))).toEqual([]);

    const events = await ctl("get", "events");
    for (const reason of ["VMStarted", "VMPaused", "VMResumed", "VMRebooted", "VMStopped", "VMFailed"])
      expect(events).toContain(reason);
  });

  test("ends with the reason, where QEMU is killed", async () => {
    await ctl("vm", "create", "--vmid", "101", "--memory", "64", "--start");
    const { stdout } = await exec("pgrep", ["-f", "guest=vm101,"]);
    for (const pid of stdout.trim().split("\n")) process.kill(Number(pid), "SIGKILL");
    await expect.poll(() => ctl("get", "events"), { timeout: 150_000 }).toMatch(/VMCrashed .*signal 9/);
    await expect.poll(() => seen.at(-1)).toBe("Stopped");
    await ctl("vm", "delete", "101");
  });
});
