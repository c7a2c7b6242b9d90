// What a node has written down of the workers of its virtual clusters: FOLDER/clusters/<cluster>/vnodes/<name>/vnode.json
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { KeptVnode } from "@gpve/domain/vcluster/vnode/vnode.ts";
import { readJsonFile } from "@gpve/kit/atomic-file.ts";

/** `folder`: DIR/vclusters */
export function keptVnodes(folder: string, cluster: string): readonly KeptVnode[] {
  const place = vnodesFolder(folder, cluster);
  if (!existsSync(place)) return [];
  return readdirSync(place)
    .flatMap((name) => (readJsonFile(join(place, name, "vnode.json")) as KeptVnode | undefined) ?? [])
    .toSorted((a, b) => a.slot - b.slot);
}

export function vnodesFolder(folder: string, cluster: string): string {
  return join(folder, "clusters", cluster, "vnodes");
}

/** What its programs and its cgroup are called by. */
export function vnodeId(cluster: string, { slot }: Pick<KeptVnode, "slot">): string {
  return `${cluster}.w${slot}`;
}
