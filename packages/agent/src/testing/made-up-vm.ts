// A node with VMs that exist only in memory: what handlers and use cases need of it, and nothing else.
import { AppError } from "@gpve/contracts/errors.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { GuestAgent } from "@gpve/domain/vm/running/guest-agent.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { WorldPorts } from "./vm-world.ts";

export interface MadeUpVm {
  values: Record<string, string>;
  process?: Partial<QemuProcess>;
  agent?: GuestAgent;
}

export function madeUpVmHost(vms: Record<number, MadeUpVm>, more: Partial<WorldPorts> = {}): WorldPorts {
  const find = (vmid: number): MadeUpVm => {
    const vm = vms[vmid];
    if (vm === undefined)
      throw new AppError("object.not_found", `Configuration file '${vmid}.conf' does not exist`);
    return vm;
  };
  const host = {
    configs: {
      node: "n1",
      has: (vmid: number) => vms[vmid] !== undefined,
      get: (vmid: number) => ({ values: find(vmid).values, pending: {}, special: {} }),
    },
    processes: { qemu: (id: string) => vms[Number(id)]?.process },
    agents: { of: (process: QemuProcess) => find(Number(process.id)).agent },
    clock: systemClock,
    ...more,
  };
  return host as unknown as WorldPorts;
}

export function madeUpRequest(more: Partial<RequestContext> = {}): RequestContext {
  const log = () => undefined;
  return {
    requestId: "r1",
    actor: { userid: "root@pam", authid: "root@pam" },
    access: { privileges: () => new Map(), has: () => true, require: () => undefined },
    signal: new AbortController().signal,
    log: { debug: log, info: log, warn: log, error: log },
    clientAddress: "127.0.0.1",
    ...more,
  };
}
