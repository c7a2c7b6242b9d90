// Live figures of the VMs that run here, taken a few times a minute and kept in memory. Reports go out more often than
// that: they tell at once who runs, with the figures of the last look.
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { driveStatistics, guestMemory } from "./guest-statistics.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import { summarise } from "@gpve/domain/guest/guest-record.ts";
import { listNets } from "@gpve/domain/vm/config/vm-network.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";

export interface VmSamplerDeps {
  readonly processes: { list(): readonly GuestProcess[]; qemu(id: string): QemuProcess | undefined };
  readonly configs: VmConfigs;
  readonly clock: Clock;
  /** Bytes in and out of a NIC's tap; undefined = no such device. */
  readonly traffic: (
    vmid: number,
    key: string,
  ) => { readonly received: number; readonly sent: number } | undefined;
  /** What DHCP gave a card; undefined = nothing that is known here. */
  readonly addressOf: (mac: string) => string | undefined;
}

interface Sample {
  readonly at: number;
  readonly cpuNs: number;
  readonly cpu: number;
}

interface BlockTraffic {
  readonly read: number;
  readonly written: number;
}

type DriveTraffic = Readonly<Record<string, BlockTraffic>>;

interface Figures {
  readonly at: number;
  readonly pid: number;
  readonly row: GuestRuntime;
}

const ASK_AT_ONCE = 16;
const ASK_TIMEOUT_MS = 2_000;
export const BALLOON_PATH = "/machine/peripheral/balloon0";
/** As often as PVE has guests report their memory. */
const BALLOON_POLL_SECONDS = 2;
/** Figures of a guest older than this are taken anew even where nobody looks at all guests. */
const FIGURES_LAST_MS = 15_000;
/** A guest that has just started changes fast, and somebody may be waiting to see it. */
const YOUNG_SECONDS = 30;

function driveTraffic(rows: unknown): DriveTraffic {
  return Object.fromEntries(
    Object.entries(driveStatistics(rows)).map(([drive, stats]) => [
      drive,
      { read: stats["rd_bytes"] ?? 0, written: stats["wr_bytes"] ?? 0 },
    ]),
  );
}

export class VmSampler {
  readonly #deps: VmSamplerDeps;
  readonly #last = new Map<string, Sample>();
  readonly #blocks = new Map<string, DriveTraffic>();
  /** The process whose balloon was told to report, by guest. */
  readonly #reporting = new Map<string, number>();
  /** Bytes as guests see it. */
  readonly #memory = new Map<string, { readonly used: number; readonly free: number }>();
  readonly #figures = new Map<string, Figures>();

  constructor(deps: VmSamplerDeps) {
    this.#deps = deps;
  }

  /** One row per running VM, measured now; the server fills in the stopped ones from their configuration. */
  sample(): readonly GuestRuntime[] {
    const running = this.#running();
    this.#forgetAllBut(running);
    return running.map((process) => this.#measure(process));
  }

  /** One row per VM that runs now, with the figures of the last look where they still hold. */
  rows(): readonly GuestRuntime[] {
    const running = this.#running();
    this.#forgetAllBut(running);
    const now = this.#deps.clock.monotonic();
    return running.map((process) => {
      const known = this.#figures.get(process.id);
      const uptimeSeconds = this.#uptime(process);
      if (known === undefined || known.pid !== process.pid) return this.#measure(process);
      if (uptimeSeconds < YOUNG_SECONDS || now - known.at >= FIGURES_LAST_MS) return this.#measure(process);
      return { ...known.row, uptimeSeconds };
    });
  }

  /** Which VMs run, in which processes. */
  running(): string {
    return this.#running()
      .map(({ id, pid }) => `${id}:${pid}`)
      .toSorted()
      .join();
  }

  /** Asks every QEMU for its guest, a few at a time. One that does not answer keeps its last figures. */
  async askGuests(): Promise<void> {
    const waiting = this.#running();
    const ask = async (): Promise<void> => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        const about = [this.#askForDrives(next), this.#askForMemory(next)];
        for (const { status, reason } of (await Promise.allSettled(about)) as PromiseRejectedResult[])
          if (status === "rejected") ignore(reason, "it may be ending, or has no balloon");
      }
    };
    await Promise.all(Array.from({ length: ASK_AT_ONCE }, ask));
  }

  /** Bytes that a guest does not use; undefined = it does not say. */
  freeMemory(vmid: number): number | undefined {
    return this.#memory.get(String(vmid))?.free;
  }

  async #askForDrives({ id, qmp }: QemuProcess): Promise<void> {
    const rows = await qmp.raw("query-blockstats", {}, { timeoutMs: ASK_TIMEOUT_MS });
    this.#blocks.set(id, driveTraffic(rows));
  }

  /** Fails for a VM without a balloon. */
  async #askForMemory({ id, pid, qmp }: QemuProcess): Promise<void> {
    const options = { timeoutMs: ASK_TIMEOUT_MS };
    const balloon = { path: BALLOON_PATH };
    if (this.#reporting.get(id) !== pid) {
      // Once: from then on its balloon driver reports by itself.
      const every = { property: "guest-stats-polling-interval", value: BALLOON_POLL_SECONDS };
      await qmp.raw("qom-set", { ...balloon, ...every }, options);
      this.#reporting.set(id, pid);
    }
    const stats = await qmp
      .raw("qom-get", { ...balloon, property: "guest-stats" }, options)
      .catch((err: unknown) => ignore(err, "the guest has no driver for it yet"));
    const memory = guestMemory(stats);
    if (memory === undefined) this.#memory.delete(id);
    else this.#memory.set(id, memory);
  }

  #running(): QemuProcess[] {
    const { processes } = this.#deps;
    return processes.list().flatMap(({ id, hasExited }) => (hasExited ? [] : (processes.qemu(id) ?? [])));
  }

  #forgetAllBut(running: readonly QemuProcess[]): void {
    const ids = new Set(running.map(({ id }) => id));
    for (const known of [this.#last, this.#blocks, this.#reporting, this.#memory, this.#figures])
      for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
  }

  #measure(process: QemuProcess): GuestRuntime {
    const row = this.#row(process);
    this.#figures.set(process.id, { at: this.#deps.clock.monotonic(), pid: process.pid, row });
    return row;
  }

  #uptime({ startedAt }: QemuProcess): number {
    return Math.max(0, Math.floor((this.#deps.clock.now() - startedAt) / 1000));
  }

  #row(process: QemuProcess): GuestRuntime {
    const vmid = Number(process.id);
    const { cpuNs, memoryAnonBytes, memoryBytes } = process.usage();
    const values = this.#deps.configs.find(vmid)?.values ?? {};
    const { cpus, maxmem } = summarise(vmid, VM_TYPE, new Map(Object.entries(values)));
    const nics = Object.keys(values).filter((key) => /^net\d+$/.test(key));
    // What the host sends into the tap is what the guest receives.
    const traffic = nics.flatMap((key) => {
      const counted = this.#deps.traffic(vmid, key);
      if (counted === undefined) return [];
      return [[`tap${vmid}i${key.slice(3)}`, { netin: counted.sent, netout: counted.received }] as const];
    });
    const drives = this.#blocks.get(process.id) ?? {};
    const addresses = listNets(values).flatMap(({ net }) =>
      net.macaddr === undefined ? [] : (this.#deps.addressOf(net.macaddr) ?? []),
    );
    return {
      vmid,
      type: VM_TYPE,
      status: "running",
      uptimeSeconds: this.#uptime(process),
      cpu: this.#cpu(process.id, cpuNs, cpus),
      mem: this.#memory.get(process.id)?.used ?? Math.min(memoryAnonBytes, maxmem),
      memhost: memoryBytes,
      diskread: Object.values(drives).reduce((sum, { read }) => sum + read, 0),
      diskwrite: Object.values(drives).reduce((sum, { written }) => sum + written, 0),
      netin: traffic.reduce((sum, [, { netin }]) => sum + netin, 0),
      netout: traffic.reduce((sum, [, { netout }]) => sum + netout, 0),
      drives,
      nics: Object.fromEntries(traffic),
      ...(addresses.length === 0 ? {} : { addresses }),
      extra: { pid: process.pid, startedAt: process.startedAt },
    };
  }

  /** Share of the VM's own CPUs used since the last sample. */
  #cpu(id: string, cpuNs: number, cpus: number): number {
    const at = this.#deps.clock.monotonic();
    const last = this.#last.get(id);
    if (last !== undefined && at - last.at < 500) return last.cpu;
    const cpu = last === undefined ? 0 : Math.max(0, (cpuNs - last.cpuNs) / ((at - last.at) * 1e6) / cpus);
    this.#last.set(id, { at, cpuNs, cpu });
    return cpu;
  }
}
