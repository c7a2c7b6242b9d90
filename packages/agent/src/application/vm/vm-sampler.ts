// Live figures of the VMs that run here, taken a few times a minute and kept in memory.
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { VmConfigs } from "./vm-configs.ts";
import { summarise } from "@gpve/domain/guest/guest-record.ts";

export interface VmSamplerDeps {
  readonly processes: { list(): readonly GuestProcess[] };
  readonly configs: VmConfigs;
  readonly clock: Clock;
  /** Bytes in and out of a NIC's tap; undefined = no such device. */
  readonly traffic: (
    vmid: number,
    key: string,
  ) => { readonly received: number; readonly sent: number } | undefined;
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

const ASK_AT_ONCE = 16;
const ASK_TIMEOUT_MS = 2_000;

function blockTraffic(rows: unknown): BlockTraffic {
  const all = rows as readonly { readonly stats: { readonly rd_bytes: number; readonly wr_bytes: number } }[];
  return {
    read: all.reduce((sum, { stats }) => sum + stats.rd_bytes, 0),
    written: all.reduce((sum, { stats }) => sum + stats.wr_bytes, 0),
  };
}

export class VmSampler {
  readonly #deps: VmSamplerDeps;
  readonly #last = new Map<string, Sample>();
  readonly #blocks = new Map<string, BlockTraffic>();

  constructor(deps: VmSamplerDeps) {
    this.#deps = deps;
  }

  /** One row per running VM; the server fills in the stopped ones from their configuration. */
  sample(): readonly GuestRuntime[] {
    const running = this.#running();
    for (const id of this.#last.keys())
      if (!running.some((process) => process.id === id)) {
        this.#last.delete(id);
        this.#blocks.delete(id);
      }
    return running.map((process) => this.#row(process));
  }

  /** Asks every QEMU for its disks, a few at a time. One that does not answer keeps its last figures. */
  async askDisks(): Promise<void> {
    const waiting = this.#running();
    const ask = async (): Promise<void> => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        try {
          const rows = await next.qmp.raw("query-blockstats", {}, { timeoutMs: ASK_TIMEOUT_MS });
          this.#blocks.set(next.id, blockTraffic(rows));
        } catch (err) {
          ignore(err, "it may be ending");
        }
      }
    };
    await Promise.all(Array.from({ length: ASK_AT_ONCE }, ask));
  }

  #running(): GuestProcess[] {
    return this.#deps.processes.list().filter(({ id, hasExited }) => /^\d+$/.test(id) && !hasExited);
  }

  #row(process: GuestProcess): GuestRuntime {
    const vmid = Number(process.id);
    const { cpuNs, memoryAnonBytes, memoryBytes } = process.usage();
    const values = this.#deps.configs.find(vmid)?.values ?? {};
    const { cpus, maxmem } = summarise(vmid, "qemu", new Map(Object.entries(values)));
    const nics = Object.keys(values).filter((key) => /^net\d+$/.test(key));
    const traffic = nics.flatMap((key) => this.#deps.traffic(vmid, key) ?? []);
    return {
      vmid,
      type: "qemu",
      status: "running",
      uptimeSeconds: Math.max(0, Math.floor((this.#deps.clock.now() - process.startedAt) / 1000)),
      cpu: this.#cpu(process.id, cpuNs, cpus),
      mem: Math.min(memoryAnonBytes, maxmem),
      memhost: memoryBytes,
      diskread: this.#blocks.get(process.id)?.read ?? 0,
      diskwrite: this.#blocks.get(process.id)?.written ?? 0,
      // What the host sends into the tap is what the guest receives.
      netin: traffic.reduce((sum, { sent }) => sum + sent, 0),
      netout: traffic.reduce((sum, { received }) => sum + received, 0),
      extra: { pid: process.pid },
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
