// How many huge pages a guest needs of each node of the host.
import { refused } from "../../../request/failures.ts";
import type { VmValues } from "../../config/vm-config.ts";
import { memoryMiB, readHotplug } from "../../config/vm-properties.ts";
import type { HostFacts } from "../host-facts.ts";
import { hugepageSize } from "./hugepages.ts";
import { customNodes, memoryModules, staticMemoryMiB } from "./memory.ts";

export interface HugepageNeed {
  readonly sizeMiB: number;
  /** NUMA node of the host. */
  readonly node: number;
  readonly count: number;
}

/** What must be free before the guest starts; nothing for guests without huge pages. */
export function hugepageNeeds(
  values: VmValues,
  host: Pick<HostFacts, "hugepageSizesMiB">,
): readonly HugepageNeed[] {
  if (values["hugepages"] === undefined || values["numa"] !== "1") return [];
  const needs = new Map<string, HugepageNeed>();
  const add = (memory: number, node: number): void => {
    const sizeMiB = hugepageSize(values, host, memory);
    const key = `${sizeMiB}/${node}`;
    const count = (needs.get(key)?.count ?? 0) + Math.ceil(memory / sizeMiB);
    needs.set(key, { sizeMiB, node, count });
  };
  const memory = memoryMiB(values["memory"]);
  const hotplug = readHotplug(values["hotplug"]).has("memory");
  const custom = customNodes(values);
  for (const { node } of custom) add(node.memory ?? 0, onlyNode(node.hostnodes));
  if (custom.length === 0) {
    const sockets = Number(values["sockets"] ?? 1);
    const fixed = hotplug ? staticMemoryMiB(values) : memory;
    for (let node = 0; node < sockets; node++) add(fixed / sockets, node);
  }
  if (hotplug) for (const { sizeMiB, node } of memoryModules(values, memory)) add(sizeMiB, node);
  return [...needs.values()];
}

function onlyNode(hostNodes: string | undefined): number {
  if (hostNodes === undefined || !/^\d$/.test(hostNodes))
    throw refused("more than 1 hostnode value in numa node is not supported when hugepages are enabled");
  return Number(hostNodes);
}
