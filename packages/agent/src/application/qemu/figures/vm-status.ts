// GET status/current: what the configuration says, and what QEMU says right now.
import { given } from "@gpve/contracts/given.ts";
import { isAppError } from "@gpve/contracts/errors.ts";
import type { QemuProcess, QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";
import { summarise } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { listNets } from "@gpve/domain/vm/config/vm-network.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import { ignore } from "@gpve/kit/background.ts";
import { balloonInfo, driveStatistics, type DriveStatistics } from "./guest-statistics.ts";
import { userNetworkRemarks, type UserNetworkPorts } from "../helpers/user-network.ts";
import { BALLOON_PATH } from "./vm-sampler.ts";
import { runningVm } from "../running-vm.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";

export interface VmStatusPorts extends UserNetworkPorts {
  readonly processes: QemuProcesses;
  readonly configs: VmConfigs;
}

const QUERY_TIMEOUT_MS = 3_000;
const IDLE = { cpu: 0, mem: 0, memhost: 0, diskread: 0, diskwrite: 0, netin: 0, netout: 0 };

export async function vmStatus(
  host: VmStatusPorts,
  vmid: number,
  sampled: GuestRuntime | undefined,
): Promise<Record<string, unknown>> {
  const config = host.configs.get(vmid);
  const process = runningVm(host, vmid);
  const shown: Record<string, unknown> = { ...fromConfig(vmid, config.values), ha: host.configs.haOf(vmid) };
  if (process === undefined) {
    return {
      ...shown,
      status: "stopped",
      qmpstatus: "stopped",
      uptime: 0,
      ...IDLE,
    };
  }
  const figures = sampled ?? noFigures(host, vmid, process);
  const { extra: _extra, type: _type, drives: _drives, uptimeSeconds, addresses, ...shownFigures } = figures;
  return {
    ...shown,
    ...shownFigures,
    ...pressureOf(process),
    status: "running",
    uptime: uptimeSeconds,
    pid: process.pid,
    ...given({ "gpve-addresses": addresses }),
    ...runningFacts(process, [
      ...userNetworkRemarks(host, vmid, config.values),
      ...host.network.filterRemarks(vmid, listNets(config.values)),
    ]),
    ...(await fromQemu(process, Number(shown["maxmem"]))),
  };
}

function fromConfig(vmid: number, values: VmValues): Record<string, unknown> {
  const { name, cpus, maxmem, maxdisk, template, tags, lock, serial, balloon } = summarise(
    vmid,
    VM_TYPE,
    new Map(Object.entries(values)),
  );
  const agent = values["agent"];
  const vga = values["vga"] === undefined ? {} : readVmProperty("vga", values["vga"], "vga");
  return {
    vmid,
    name,
    cpus,
    maxmem,
    maxdisk,
    disk: 0,
    ...(template ? { template: 1 } : {}),
    ...given({ tags, lock }),
    ...(agent !== undefined && readVmProperty("agent", agent, "agent").enabled ? { agent: 1 } : {}),
    ...(serial === undefined ? {} : { serial: 1 }),
    ...(balloon === undefined ? {} : { balloon_min: balloon.min, shares: balloon.shares }),
    // PVE counts virtio displays too: their viewer is the same one.
    ...(/^(?:qxl|virtio)/.test(vga.type ?? "") ? { spice: 1 } : {}),
    ...given({ clipboard: vga.clipboard }),
  };
}

function noFigures(host: VmStatusPorts, vmid: number, process: QemuProcess): GuestRuntime {
  const uptimeSeconds = Math.max(0, Math.floor((host.clock.now() - process.startedAt) / 1000));
  return {
    vmid,
    type: VM_TYPE,
    status: "running",
    uptimeSeconds,
    ...IDLE,
  };
}

/** What was decided at the start and kept with the process. */
function runningFacts(process: QemuProcess, remarks: readonly string[]): Record<string, unknown> {
  const {
    machine,
    accelerator,
    notes = [],
  } = (process.note ?? {}) as {
    machine?: string;
    accelerator?: string;
    notes?: readonly string[];
  };
  return {
    ...given({ "running-machine": machine, "gpve-accelerator": accelerator }),
    ...(notes.length + remarks.length === 0 ? {} : { "gpve-notes": [...notes, ...remarks] }),
  };
}

/** A QEMU that does not answer is shown as such; the rest of the status is still true. */
async function fromQemu(process: QemuProcess, maxmem: number): Promise<Record<string, unknown>> {
  const options = { timeoutMs: QUERY_TIMEOUT_MS };
  try {
    const [{ status }, version, stats, balloon] = await Promise.all([
      process.qmp.execute("query-status", undefined, options),
      process.qmp.execute("query-version", undefined, options),
      process.qmp.raw("query-blockstats", {}, options),
      balloonOf(process, maxmem),
    ]);
    const { qemu } = version;
    const blockstat = driveStatistics(stats);
    return {
      qmpstatus: status,
      "running-qemu": `${qemu.major}.${qemu.minor}.${qemu.micro}`,
      "proxmox-support": {},
      blockstat,
      diskread: sum(blockstat, "rd_bytes"),
      diskwrite: sum(blockstat, "wr_bytes"),
      ...balloon,
    };
  } catch (err) {
    if (!isAppError(err)) throw err;
    return { qmpstatus: "unknown" };
  }
}

/** Empty for a VM without a balloon. */
async function balloonOf(process: QemuProcess, maxmem: number): Promise<Record<string, unknown>> {
  const options = { timeoutMs: QUERY_TIMEOUT_MS };
  try {
    const { actual } = (await process.qmp.raw("query-balloon", {}, options)) as { actual: number };
    const stats = await process.qmp
      .raw("qom-get", { path: BALLOON_PATH, property: "guest-stats" }, options)
      .catch((err: unknown) => ignore(err, "the guest has no driver for it yet"));
    const ballooninfo = balloonInfo(actual, maxmem, stats);
    const { free_mem: free, total_mem: total } = ballooninfo;
    const known = free === undefined || total === undefined ? {} : { mem: total - free, freemem: free };
    return { balloon: actual, ballooninfo, ...known };
  } catch (err) {
    ignore(err, "this VM has no balloon");
    return {};
  }
}

/** Shares of the last ten seconds in which the guest waited; known where the kernel counts them by cgroup. */
function pressureOf(process: QemuProcess): Record<string, number> {
  return Object.fromEntries(
    Object.entries(process.pressure()).map(([name, value]) => [`pressure${name}`, value]),
  );
}

function sum(statistics: DriveStatistics, field: string): number {
  return Object.values(statistics).reduce((total, stats) => total + (stats[field] ?? 0), 0);
}
