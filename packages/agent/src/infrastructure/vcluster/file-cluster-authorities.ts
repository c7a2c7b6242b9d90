// Authorities of clusters, as their keys are files.
import type { ClusterAuthorities, ClusterRotation } from "@gpve/domain/vcluster/rotate/authorities.ts";
import type { ClusterKeys } from "./cluster-keys.ts";

export class FileClusterAuthorities implements ClusterAuthorities {
  readonly #keysOf: (name: string) => ClusterKeys;

  constructor(keysOf: (name: string) => ClusterKeys) {
    this.#keysOf = keysOf;
  }

  rotation(name: string): ClusterRotation | undefined {
    return this.#keysOf(name).rotation;
  }

  trust(name: string): string {
    return this.#keysOf(name).caPem;
  }

  begin(name: string, until: number): Promise<void> {
    return this.#keysOf(name).rotate(until);
  }

  settle(name: string): void {
    this.#keysOf(name).settleRotation();
  }

  turn(name: string): void {
    this.#keysOf(name).turnEtcd();
  }

  drop(name: string): void {
    this.#keysOf(name).dropFormer();
  }
}
