// PCI devices belong to one guest at a time: to one that runs, or to one that is being started.
import { conflict } from "@gpve/domain/request/failures.ts";
import type { AppError } from "@gpve/contracts/errors.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";

export class PciReservations {
  readonly #processes: Pick<QemuProcesses, "list">;
  readonly #starting = new Map<string, number>();

  constructor(processes: Pick<QemuProcesses, "list">) {
    this.#processes = processes;
  }

  /** Held by guests other than this one. */
  inUse(vmid: number): ReadonlySet<string> {
    const holders = [...this.#running(), ...this.#starting].filter(([, holder]) => holder !== vmid);
    return new Set(holders.map(([address]) => address));
  }

  /** Throws PVE's text when another guest has one of them. The returned function ends the reservation. */
  reserve(addresses: readonly string[], vmid: number): () => void {
    const running = new Map(this.#running());
    for (const address of addresses) {
      const user = running.get(address);
      if (user !== undefined && user !== vmid)
        throw taken(`PCI device '${address}' already in use by VMID '${user}'`);
      const next = this.#starting.get(address);
      if (next !== undefined && next !== vmid)
        throw taken(`PCI device '${address}' is currently reserved for use by VMID '${next}'`);
    }
    for (const address of addresses) this.#starting.set(address, vmid);
    return () => {
      for (const address of addresses)
        if (this.#starting.get(address) === vmid) this.#starting.delete(address);
    };
  }

  /** What was written down at the start of every running guest. */
  #running(): [string, number][] {
    return this.#processes.list().flatMap(({ id, hasExited, note }) => {
      const { pci } = (note ?? {}) as { readonly pci?: readonly string[] };
      if (hasExited || pci === undefined) return [];
      return pci.map((address): [string, number] => [address, Number(id)]);
    });
  }
}

function taken(message: string): AppError {
  return conflict(message);
}
