// VMIDs out of the file's ranges. What an earlier run gave out stays, so that a pool that grows moves nobody.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Machine, Pinned } from "./machine.ts";
import type { Cluster } from "./cluster.ts";

export function takeIds(
  cluster: Pick<Cluster, "vmids" | "nodes">,
  members: readonly Pick<Machine, "name" | "role">[],
  pinned: Readonly<Record<string, Pinned>>,
): ReadonlyMap<string, number> {
  const fixed = new Map<string, number>();
  for (const { name } of members) {
    const id = cluster.nodes[name]?.vmid ?? pinned[name]?.vmid;
    if (id !== undefined) fixed.set(name, id);
  }
  const taken = new Set(fixed.values());
  const next = { controlplane: 0, worker: 0 };
  return new Map(
    members.map(({ name, role }) => {
      const known = fixed.get(name);
      if (known !== undefined) return [name, known];
      const key = role === "controlplane" ? "controlPlane" : "worker";
      const [from = 0, to = 0] = cluster.vmids[key].split("-").map(Number);
      for (let id = Math.max(from, next[role]); id <= to; id += 1) {
        if (taken.has(id)) continue;
        taken.add(id);
        next[role] = id + 1;
        return [name, id];
      }
      throw new AppError(
        "config.invalid",
        `no VMID is left for ${name} in vmids.${key} (${cluster.vmids[key]}); widen the range`,
        { data: { finding: "vmids-exhausted" } },
      );
    }),
  );
}
