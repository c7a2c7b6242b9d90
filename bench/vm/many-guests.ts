// Hundreds of QEMUs that do nothing, on one agent: what it costs to keep an eye on them.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { bootSector } from "@gpve/agent/testing/boot-sector.ts";
import { cpuSeconds, residentMiB } from "../../test/support/process.ts";
import { benchOf, forEach, NODE, runTask, type Bench } from "./bench-gpve.ts";

const FIRST = 2_000;
const MONITORING = "gpve_guest_monitoring_duration_seconds";

export interface ManyGuests {
  readonly guests: number;
  readonly startMsEach: number;
  readonly seconds: number;
  readonly passMs: number;
  readonly passes: number;
  readonly agentMiB: number;
  readonly agentCpuPercent: number;
  readonly supervisorMiBEach: number;
  readonly supervisorsCpuPercent: number;
  readonly listMs: number;
  readonly adoptMs: number;
  readonly adopted: number;
}

export async function measureManyGuests(
  bench: Bench,
  metrics: string,
  guests: number,
  seconds: number,
): Promise<ManyGuests> {
  writeFileSync(join(bench.data, "storage/local/import/sleep.raw"), bootSector("deepSleep"));
  const ids = Array.from({ length: guests }, (_, index) => FIRST + index);
  const begun = performance.now();
  await forEach(ids, 8, (vmid) =>
    runTask(bench, "POST", `/nodes/${NODE}/qemu`, {
      vmid,
      memory: 16,
      vga: "none",
      tablet: 0,
      scsi0: "local:0,import-from=local:import/sleep.raw",
      start: 1,
    }),
  );
  const startMsEach = (performance.now() - begun) / guests;
  await sleep(15_000);
  const agent = bench.gpve.process.pid;
  const supervisors = supervisorsOf(bench.data);
  const cpu = (): number => supervisors.reduce((sum, pid) => sum + cpuSeconds(pid), 0);
  const before = { agent: cpuSeconds(agent), supervisors: cpu(), passes: await passes(metrics) };
  await sleep(seconds * 1000);
  const after = { agent: cpuSeconds(agent), supervisors: cpu(), passes: await passes(metrics) };
  const count = after.passes.count - before.passes.count;
  const memory = supervisors.reduce((sum, pid) => sum + ownMiB(pid), 0) / supervisors.length;
  const agentMiB = residentMiB(agent);
  const listBegun = performance.now();
  await bench.api("GET", `/nodes/${NODE}/qemu`);
  const listMs = performance.now() - listBegun;

  await bench.gpve.kill();
  const killed = performance.now();
  const again = benchOf(await bench.gpve.restart());
  const rows = (await again.api("GET", `/nodes/${NODE}/qemu`)).data as { status: string }[];
  const adoptMs = performance.now() - killed;
  await forEach(ids, 8, (vmid) => runTask(again, "POST", `/nodes/${NODE}/qemu/${vmid}/status/stop`));
  await again.gpve.stop();
  return {
    guests,
    startMsEach,
    seconds,
    passMs: (1000 * (after.passes.sum - before.passes.sum)) / count,
    passes: count,
    agentMiB,
    agentCpuPercent: (100 * (after.agent - before.agent)) / seconds,
    supervisorMiBEach: memory,
    supervisorsCpuPercent: (100 * (after.supervisors - before.supervisors)) / seconds,
    listMs,
    adoptMs,
    adopted: rows.filter(({ status }) => status === "running").length,
  };
}

async function passes(url: string): Promise<{ sum: number; count: number }> {
  const text = await (await fetch(url)).text();
  const value = (name: string): number =>
    Number(new RegExp(`^${MONITORING}_${name} (\\S+)$`, "m").exec(text)?.[1]);
  return { sum: value("sum"), count: value("count") };
}

function supervisorsOf(data: string): number[] {
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const [program = ""] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      return program.startsWith(data) && program.includes("gpve-supervisor") ? [Number(pid)] : [];
    } catch {
      return []; // It ended while we looked.
    }
  });
}

/** Memory that would be free without it: its own pages, and its part of what it shares. */
function ownMiB(pid: number): number {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "latin1");
  return Number(/^Pss:\s+(\d+) kB/m.exec(rollup)?.[1] ?? 0) / 1024;
}
