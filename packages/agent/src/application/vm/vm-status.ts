// GET status/current: what the configuration says, and what QEMU says right now.
import { isAppError } from "@gpve/contracts/errors.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import { summarise } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import type { VmValues } from "@gpve/domain/vm/vm-config.ts";
import { readVmProperty } from "@gpve/domain/vm/vm-properties.ts";
import { runningVm, type VmHost } from "./vm-host.ts";

const QUERY_TIMEOUT_MS = 3_000;

export async function vmStatus(
  host: VmHost,
  vmid: number,
  sampled: GuestRuntime | undefined,
): Promise<Record<string, unknown>> {
  const config = host.configs.get(vmid);
  const process = runningVm(host, vmid);
  const shown = fromConfig(vmid, config.values);
  if (process === undefined) {
    return {
      ...shown,
      status: "stopped",
      qmpstatus: "stopped",
      uptime: 0,
      cpu: 0,
      mem: 0,
      diskread: 0,
      diskwrite: 0,
      netin: 0,
      netout: 0,
    };
  }
  const { extra: _extra, type: _type, uptimeSeconds, ...figures } = sampled ?? noFigures(host, vmid, process);
  return {
    ...shown,
    ...figures,
    status: "running",
    uptime: uptimeSeconds,
    pid: process.pid,
    ...runningFacts(process),
    ...(await fromQemu(process)),
  };
}

function fromConfig(vmid: number, values: VmValues): Record<string, unknown> {
  const { name, cpus, maxmem, maxdisk, template, tags, lock } = summarise(
    vmid,
    "qemu",
    new Map(Object.entries(values)),
  );
  const agent = values["agent"];
  const hasSerial = Object.keys(values).some((key) => /^serial\d+$/.test(key));
  return {
    vmid,
    name,
    cpus,
    maxmem,
    maxdisk,
    disk: 0,
    ha: { managed: 0 },
    ...(template ? { template: 1 } : {}),
    ...(tags === undefined ? {} : { tags }),
    ...(lock === undefined ? {} : { lock }),
    ...(agent !== undefined && readVmProperty("agent", agent, "agent").enabled ? { agent: 1 } : {}),
    ...(hasSerial ? { serial: 1 } : {}),
    ...(/^(?:type=)?qxl/.test(values["vga"] ?? "") ? { spice: 1 } : {}),
  };
}

function noFigures(host: VmHost, vmid: number, process: GuestProcess): GuestRuntime {
  const uptimeSeconds = Math.max(0, Math.floor((host.clock.now() - process.startedAt) / 1000));
  return {
    vmid,
    type: "qemu",
    status: "running",
    uptimeSeconds,
    cpu: 0,
    mem: 0,
    diskread: 0,
    diskwrite: 0,
    netin: 0,
    netout: 0,
  };
}

/** What was decided at the start and kept with the process. */
function runningFacts(process: GuestProcess): Record<string, unknown> {
  const { machine, accelerator, notes } = (process.note ?? {}) as {
    machine?: string;
    accelerator?: string;
    notes?: readonly string[];
  };
  return {
    ...(machine === undefined ? {} : { "running-machine": machine }),
    ...(accelerator === undefined ? {} : { "gpve-accelerator": accelerator }),
    ...(notes === undefined || notes.length === 0 ? {} : { "gpve-notes": notes }),
  };
}

/** A QEMU that does not answer is shown as such; the rest of the status is still true. */
async function fromQemu(process: GuestProcess): Promise<Record<string, unknown>> {
  const options = { timeoutMs: QUERY_TIMEOUT_MS };
  try {
    const [{ status }, version, stats] = await Promise.all([
      process.qmp.execute("query-status", undefined, options),
      process.qmp.execute("query-version", undefined, options),
      process.qmp.raw("query-blockstats", {}, options),
    ]);
    const { qemu } = version;
    const blockstat = blockStatistics(stats);
    return {
      qmpstatus: status,
      "running-qemu": `${qemu.major}.${qemu.minor}.${qemu.micro}`,
      "proxmox-support": {},
      blockstat,
      diskread: sum(blockstat, "rd_bytes"),
      diskwrite: sum(blockstat, "wr_bytes"),
    };
  } catch (err) {
    if (!isAppError(err)) throw err;
    return { qmpstatus: "unknown" };
  }
}

type BlockStatistics = Record<string, Record<string, number>>;

function blockStatistics(rows: unknown): BlockStatistics {
  const found: BlockStatistics = {};
  for (const row of rows as readonly {
    device?: string;
    qdev?: string;
    "node-name"?: string;
    stats: Record<string, number>;
  }[]) {
    const name =
      row.device !== undefined && row.device !== "" ? row.device : (row.qdev ?? row["node-name"] ?? "");
    const drive = /(?:drive-)?((?:ide|sata|scsi|virtio|efidisk)\d+)/.exec(name)?.[1];
    if (drive !== undefined) found[drive] = row.stats;
  }
  return found;
}

function sum(statistics: BlockStatistics, field: string): number {
  return Object.values(statistics).reduce((total, stats) => total + (stats[field] ?? 0), 0);
}
