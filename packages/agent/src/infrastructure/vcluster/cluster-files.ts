// What a node keeps of each of its clusters, in a file of its own; read once, as nobody else writes them.
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { KeptCluster, KeptClusters } from "@gpve/domain/vcluster/ports.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";

export class ClusterFiles implements KeptClusters {
  readonly #folder: string;
  #known: Map<string, KeptCluster> | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  list(): readonly KeptCluster[] {
    return [...this.#all().values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  get(name: string): KeptCluster | undefined {
    return this.#all().get(name);
  }

  save(cluster: KeptCluster): void {
    mkdirSync(join(this.#folder, cluster.name), { recursive: true, mode: 0o700 });
    writeFileAtomic(this.#file(cluster.name), `${JSON.stringify(cluster)}\n`);
    this.#all().set(cluster.name, cluster);
  }

  /** With all that is in its folder. */
  remove(name: string): void {
    rmSync(join(this.#folder, name), { recursive: true, force: true });
    this.#all().delete(name);
  }

  #all(): Map<string, KeptCluster> {
    if (this.#known !== undefined) return this.#known;
    const names = existsSync(this.#folder) ? readdirSync(this.#folder) : [];
    this.#known = new Map(
      names.flatMap((name) => {
        const kept = readJsonFile(this.#file(name)) as KeptCluster | undefined;
        return kept === undefined ? [] : [[name, kept]];
      }),
    );
    return this.#known;
  }

  #file(name: string): string {
    return join(this.#folder, name, "cluster.json");
  }
}
