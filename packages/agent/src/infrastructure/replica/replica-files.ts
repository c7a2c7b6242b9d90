// Which copies of other nodes' VMs this node keeps: a file for each, beside what was delivered and is not put in yet.
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { Replica, ReplicaNotes } from "@gpve/domain/replication/replica.ts";

export class ReplicaFiles implements ReplicaNotes {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  get(vmid: number): Replica | undefined {
    return readJsonFile(this.#file(vmid)) as Replica | undefined;
  }

  set(replica: Replica): void {
    writeFileAtomic(this.#file(replica.vmid), JSON.stringify(replica));
  }

  remove(vmid: number): void {
    rmSync(this.#file(vmid), { force: true });
  }

  delivery(vmid: number): string {
    return join(this.#folder, `${vmid}.gpvi`);
  }

  hasDelivery(vmid: number): boolean {
    return existsSync(this.delivery(vmid));
  }

  /** The job that keeps a volume as its copy; undefined = none does. */
  keeperOf(volid: string): string | undefined {
    const vmids = readdirSync(this.#folder).flatMap((name) => /^(\d+)\.json$/.exec(name)?.[1] ?? []);
    return vmids
      .map((vmid) => this.get(Number(vmid)))
      .find((replica) => replica?.volumes.some((each) => each.volid === volid))?.job;
  }

  #file(vmid: number): string {
    return join(this.#folder, `${vmid}.json`);
  }
}
