// Live figures of the VMs that run here, taken a few times a minute and kept in memory.
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
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

export class VmSampler {
  readonly #deps: VmSamplerDeps;
  readonly #last = new Map<string, Sample>();

  constructor(deps: VmSamplerDeps) {
    this.#deps = deps;
  }

  /** One row per running VM; the server fills in the stopped ones from their configuration. */
  sample(): readonly GuestRuntime[] {
    const running = this.#deps.processes.list().filter(({ id, hasExited }) => /^\d+$/.test(id) && !hasExited);
    for (const id of this.#last.keys())
      if (!running.some((process) => process.id === id)) this.#last.delete(id);
    return running.map((process) => this.#row(process));
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
      diskread: 0,
      diskwrite: 0,
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
