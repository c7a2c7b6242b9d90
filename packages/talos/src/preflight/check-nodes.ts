// Nodes, storages, bridges and room on them.
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import type { Observation, ObservedNode } from "../driver/driver.ts";
import { imageContent } from "../image/image-file.ts";
import { checkBridge, type CheckedNetwork } from "./check-bridge.ts";
import { error, type Finding, warning } from "./finding-report.ts";

type Provider = Cluster["providers"][number];

/** `machines` are the provider's own; `existing` those that are there already. */
export function checkNodes(
  cluster: Cluster,
  provider: Provider,
  machines: readonly Machine[],
  observation: Observation,
  existing: ReadonlySet<number>,
  network: CheckedNetwork,
): readonly Finding[] {
  return provider.nodes.flatMap((name): readonly Finding[] => {
    const node = observation.nodes.find((each) => each.name === name);
    if (node === undefined) {
      const known = observation.nodes.map((each) => each.name).join(", ");
      return [
        error("node-missing", name, `${provider.name} has ${known === "" ? "none of the nodes" : known}`),
      ];
    }
    const own = machines.filter(({ host }) => host === name);
    if (!node.isOnline)
      return [
        offline(
          name,
          own.filter(({ vmid }) => !existing.has(vmid)),
        ),
      ];
    return [
      ...checkStorages(cluster, provider, node, own, existing),
      ...checkBridge(cluster, node, network),
      ...checkRoom(cluster, node, own, existing),
    ];
  });
}

/** A node that dies must not keep the rest of the cluster from being worked on. */
function offline(name: string, missing: readonly Machine[]): Finding {
  const evidence = `${name} is offline`;
  if (missing.length === 0) return warning("node-offline", name, evidence);
  const who = missing.map((machine) => machine.name).join(", ");
  return error("node-offline", name, `${evidence}, and ${who} would be made there`);
}

function checkStorages(
  { image }: Cluster,
  { storage }: Provider,
  node: ObservedNode,
  own: readonly Machine[],
  existing: ReadonlySet<number>,
): readonly Finding[] {
  const needs = new Map<string, Set<string>>();
  const need = (name: string, content: string): void => {
    needs.set(name, (needs.get(name) ?? new Set()).add(content));
  };
  need(storage.image, imageContent(image));
  for (const name of [storage.vm, storage.efi, storage.cloudinit]) need(name, "images");
  for (const { size } of own) for (const disk of size.extraDisks) need(disk.storage, "images");
  const findings = [...needs].flatMap(([name, contents]): readonly Finding[] => {
    const found = node.storages.find((each) => each.name === name);
    if (found === undefined || !found.isActive) {
      const known = node.storages.filter(({ isActive }) => isActive).map((each) => each.name);
      return [
        error("storage-missing", `${name} on ${node.name}`, `active there: ${known.join(", ") || "none"}`),
      ];
    }
    const lacking = [...contents].filter((content) => !found.contents.includes(content));
    return lacking.length === 0
      ? []
      : [
          error(
            "storage-content",
            `${name} on ${node.name}`,
            `takes ${found.contents.join(", ")}; ${lacking.join(" and ")} is missing`,
          ),
        ];
  });
  const missing = own.filter(({ vmid }) => !existing.has(vmid));
  return [...findings, ...checkFree(storage.vm, node, missing)];
}

/** Of every storage, what the machines' disks in it can grow to together. */
function checkFree(system: string, node: ObservedNode, missing: readonly Machine[]): readonly Finding[] {
  const sums = new Map<string, number>();
  for (const { size } of missing)
    for (const { storage, gib } of [{ storage: system, gib: size.diskGiB }, ...size.extraDisks])
      sums.set(storage, (sums.get(storage) ?? 0) + gib);
  return [...sums].flatMap(([storage, disksGiB]): readonly Finding[] => {
    const free = node.storages.find(({ name }) => name === storage)?.freeGiB;
    return free === undefined || free >= disksGiB
      ? []
      : [warning("storage-full", `${storage} on ${node.name}`, `${free} GiB free, disks of ${disksGiB} GiB`)];
  });
}

function checkRoom(
  { placement }: Cluster,
  node: ObservedNode,
  own: readonly Machine[],
  existing: ReadonlySet<number>,
): readonly Finding[] {
  const tooLarge = own.flatMap(({ name, size }): readonly Finding[] => [
    ...(size.memoryMiB > node.memoryMiB
      ? [
          error(
            "memory-short",
            name,
            `${size.memoryMiB} MiB on ${node.name}, which has ${node.memoryMiB} MiB`,
          ),
        ]
      : []),
    ...(size.cores > node.cpus
      ? [error("cores-exceeded", name, `${size.cores} cores on ${node.name}, which has ${node.cpus}`)]
      : []),
  ]);
  const wanted = own
    .filter(({ vmid }) => !existing.has(vmid))
    .reduce((sum, { size }) => sum + size.memoryMiB, 0);
  const usable = Math.floor(node.memoryMiB * (1 - placement.reserveMemoryPercent / 100));
  const free = usable - node.memoryUsedMiB;
  return wanted === 0 || wanted <= free || tooLarge.some(({ id }) => id === "memory-short")
    ? tooLarge
    : [
        ...tooLarge,
        warning(
          "memory-tight",
          node.name,
          `${wanted} MiB needed, ${Math.max(0, free)} MiB free beside a reserve of ${placement.reserveMemoryPercent} %`,
        ),
      ];
}
