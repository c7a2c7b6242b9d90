// The process of a VM that runs, and PVE's texts for VMs that do not.
import { conflict, missing } from "@gpve/domain/request/failures.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";

export interface RunningPorts {
  readonly processes: { qemu(id: string): QemuProcess | undefined };
}

export interface PresencePorts {
  readonly configs: { readonly node: string; has(vmid: number): boolean };
}

export interface RequireRunningPorts extends RunningPorts, PresencePorts {}

export function processId(vmid: number): string {
  return String(vmid);
}

export function runningVm(host: RunningPorts, vmid: number): QemuProcess | undefined {
  const process = host.processes.qemu(processId(vmid));
  return process === undefined || process.hasExited ? undefined : process;
}

/** PVE's text where it looks for a VM's process first, and for its configuration only because of that. */
export function requireOnNode(host: PresencePorts, vmid: number): void {
  if (host.configs.has(vmid)) return;
  const message = `unable to find configuration file for VM ${vmid} on node '${host.configs.node}'`;
  throw missing(message);
}

/** Throws PVE's text for methods that need a running VM. */
export function requireRunningVm(host: RequireRunningPorts, vmid: number): QemuProcess {
  requireOnNode(host, vmid);
  const process = runningVm(host, vmid);
  if (process === undefined) throw conflict(`VM ${vmid} not running`);
  return process;
}
