// What a node keeps of each of its clusters, in a file of its own; read once, as nobody else writes them.
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { KeptCluster, KeptClusters } from "@gpve/domain/vcluster/ports.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";

export class ClusterFiles implements KeptClusters {
  readonly #folder: string;
  #known: Map<string, KeptCluster> | undefined;
  /** By name. Never changed but replaced: many ask several times a second, and put aside what they got. */
  #sorted: readonly KeptCluster[] = [];

  constructor(folder: string) {
    this.#folder = folder;
  }

  list(): readonly KeptCluster[] {
    this.#all();
    return this.#sorted;
  }

  get(name: string): KeptCluster | undefined {
    return this.#all().get(name);
  }

  save(cluster: KeptCluster): void {
    mkdirSync(join(this.#folder, cluster.name), { recursive: true, mode: 0o700 });
    writeFileAtomic(this.#file(cluster.name), `${JSON.stringify(cluster)}\n`);
    const isNew = !this.#all().has(cluster.name);
    this.#all().set(cluster.name, cluster);
    this.#sorted = this.#sorted.toSpliced(this.#position(cluster.name), isNew ? 0 : 1, cluster);
  }

  /** With all that is in its folder. */
  remove(name: string): void {
    rmSync(join(this.#folder, name), { recursive: true, force: true });
    if (this.#all().delete(name)) this.#sorted = this.#sorted.toSpliced(this.#position(name), 1);
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
    this.#sorted = [...this.#known.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
    return this.#known;
  }

  /** Where it is, or belongs. */
  #position(name: string): number {
    let [low, high] = [0, this.#sorted.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#sorted[middle]?.name ?? "") < name) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #file(name: string): string {
    return join(this.#folder, name, "cluster.json");
  }
}
