// What of a VM is bound to its node, and which other nodes could take it: pure, from its configuration and what nodes
// report. The same answer is shown to who asks and refuses who tries.
import { missing, refused } from "../../request/failures.ts";
import { parseVolumeId } from "../../storage/volume-id.ts";
import { isDisabled, isShared, servesNode, type StorageDefinition } from "../../storage/definition.ts";
import { listText } from "../../scheduler/words.ts";
import { entriesOn, type Mapping, type MappingType } from "../../mapping/mapping.ts";
import { cpuNeeds, hasHostCpu } from "../config/cpu-needs.ts";
import { isCdrom, isCloudinitVolume, listDrives } from "../config/drive.ts";
import { listNets } from "../config/vm-network.ts";
import type { VmConfig, VmValues } from "../config/vm-config.ts";
import { memoryMiB } from "../config/vm-properties.ts";
import { ramVolumeBytes } from "../snapshot/ram-volume-size.ts";
import { mapStorage, type StorageMap } from "./storage-map.ts";

export interface UsedVolume {
  readonly volid: string;
  readonly storage: string;
  /** "scsi0", "unused1", "vmstate"; of several the first. */
  readonly key: string;
  readonly isCdrom: boolean;
  readonly isCloudinit: boolean;
  /** Named by what the VM is now, not only by a snapshot. */
  readonly isCurrent: boolean;
  /** 0 = not said. */
  readonly bytes: number;
}

/** A node that a VM could go to, as it reports itself. */
export interface MoveTarget {
  readonly node: string;
  readonly isOnline: boolean;
  /** Storages that are usable there; undefined = it has not said. */
  readonly storages?: ReadonlySet<string> | undefined;
  readonly bridges?: readonly string[] | undefined;
  readonly freeMemory?: number | undefined;
  readonly accelerator?: string | undefined;
  /** What guests' CPUs may have there. */
  readonly cpuFlags?: readonly string[] | undefined;
  /** Who under HA keeps the VM from going there. */
  readonly blocking?: readonly BlockedBy[] | undefined;
  /** What else keeps the VM from it because it is under HA. */
  readonly closed?: string | undefined;
}

/** What HA says of a move. */
export interface MoveEffects {
  /** Resources that would go along. */
  readonly together: readonly string[];
  readonly blocking: readonly BlockedBy[];
  readonly closed?: string;
}

/** One resource of HA, or the VM itself where a rule of its own forbids the node. */
export interface BlockedBy {
  readonly sid: string;
  readonly cause: "node-affinity" | "resource-affinity";
}

export interface MoveFacts {
  readonly definitions: readonly StorageDefinition[];
  readonly isRunning: boolean;
  /** The accelerator it runs under, or would. */
  readonly accelerator?: string | undefined;
  /** What CPUs have on the node where it is. */
  readonly cpuFlags?: readonly string[] | undefined;
  readonly storageMap?: StorageMap | undefined;
  readonly mappings?: readonly Mapping[] | undefined;
  /** Stopped it goes without devices that only this node has. */
  readonly isForced?: boolean | undefined;
}

const MIB = 1024 ** 2;

/** Every volume that the VM has or uses, in whatever state it was saved. */
export function usedVolumes(config: VmConfig): readonly UsedVolume[] {
  const found = new Map<string, UsedVolume>();
  const note = (key: string, volid: string, more: Partial<UsedVolume>): void => {
    const storage = parseVolumeId(volid)?.storage;
    if (storage === undefined || found.has(volid)) return;
    const plain = { isCdrom: false, isCloudinit: false, isCurrent: true, bytes: 0 };
    found.set(volid, { volid, storage, key, ...plain, ...more });
  };
  const noteSection = (values: VmValues, isCurrent: boolean): void => {
    for (const { key, drive } of listDrives(values)) {
      const isCloudinit = isCloudinitVolume(drive.file);
      const disc = isCdrom(drive) && !isCloudinit;
      note(key, drive.file, { isCdrom: disc, isCloudinit, isCurrent, bytes: drive.size ?? 0 });
    }
    const ram = values["vmstate"];
    if (ram !== undefined) note("vmstate", ram, { isCurrent, bytes: ramVolumeBytes(values) });
    for (const [key, text] of Object.entries(values))
      if (/^unused\d+$/.test(key)) note(key, text, { isCurrent });
  };
  noteSection(config.values, true);
  noteSection(config.pending, false);
  for (const values of Object.values(config.snapshots)) noteSection(values, false);
  return [...found.values()];
}

/** Volumes that only this node has. */
export function localVolumes(
  config: VmConfig,
  definitions: readonly StorageDefinition[],
): readonly UsedVolume[] {
  const shared = new Set(definitions.filter(isShared).map(({ storage }) => storage));
  return usedVolumes(config).filter(({ storage }) => !shared.has(storage));
}

/** Keys whose devices are of this very machine: a VM cannot take them along, nor find them there unless they are mapped. */
export function localResources(values: VmValues): readonly string[] {
  return Object.entries(values)
    .filter(([key, text]) => isLocalResource(key, text))
    .map(([key]) => key)
    .toSorted();
}

export interface MappedResource {
  /** "hostpci0" */
  readonly key: string;
  readonly type: MappingType;
  readonly id: string;
}

/** Devices that go by a name of the cluster: every node may have its own. */
export function mappedResources(values: VmValues): readonly MappedResource[] {
  return Object.entries(values)
    .flatMap(([key, text]) => mappedResource(key, text) ?? [])
    .toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

function mappedResource(key: string, text: string): MappedResource | undefined {
  const type = ({ hostpci: "pci", usb: "usb", virtiofs: "dir" } as const)[
    /^(hostpci|usb|virtiofs)\d+$/.exec(key)?.[1] ?? ""
  ];
  if (type === undefined) return undefined;
  const id =
    type === "dir" ? /^(?:dirid=)?([^,]+)/.exec(text)?.[1] : /(?:^|,)mapping=([^,]+)/.exec(text)?.[1];
  return id === undefined ? undefined : { key, type, id };
}

function isLocalResource(key: string, text: string): boolean {
  if (/^hostpci\d+$/.test(key)) return true;
  if (/^usb\d+$/.test(key)) return !/^spice\b/i.test(text) && !/\bhost=spice\b/i.test(text);
  if (/^virtiofs\d+$/.test(key) || key === "ivshmem") return true;
  if (/^parallel\d+$/.test(key)) return true;
  return /^serial\d+$/.test(key) && text !== "socket";
}

/** Why a node cannot take the VM, in words a person can act on; empty = it can. */
export interface NodeObstacles {
  readonly storages: readonly string[];
  /** Keys of devices whose names mean nothing there. */
  readonly resources: readonly string[];
  readonly reasons: readonly string[];
}

export function obstaclesAt(config: VmConfig, target: MoveTarget, facts: MoveFacts): NodeObstacles {
  const reasons: string[] = [];
  if (!target.isOnline) reasons.push(`node '${target.node}' is not online`);
  const storages = new Set<string>();
  for (const volume of usedVolumes(config)) {
    const wanted = storageAt(volume, facts);
    const why = storageObstacle(wanted, target, facts.definitions);
    if (why === undefined || storages.has(wanted)) continue;
    storages.add(wanted);
    reasons.push(`${volume.key} (${volume.volid}): ${why}`);
  }
  const unmapped = unmappedAt(config.values, target.node, facts.mappings);
  for (const { key, id } of unmapped)
    reasons.push(`${key}: the mapping '${id}' has no device on node '${target.node}'`);
  for (const { sid, cause } of target.blocking ?? [])
    reasons.push(
      cause === "node-affinity"
        ? `a strict node affinity rule keeps '${sid}' from node '${target.node}'`
        : `'${sid}' on node '${target.node}' is to be apart from it (negative resource affinity)`,
    );
  if (target.closed !== undefined) reasons.push(target.closed);
  if (facts.isRunning) reasons.push(...runningObstacles(config.values, target, facts));
  else if (facts.isForced !== true) reasons.push(...unmappedDevices(config.values));
  return { storages: [...storages], resources: unmapped.map(({ key }) => key), reasons };
}

/** Named as devices of this very machine; PVE's words. */
function unmappedDevices(values: VmValues): readonly string[] {
  const mapped = new Set(mappedResources(values).map(({ key }) => key));
  const bound = localResources(values).filter((key) => !mapped.has(key));
  return bound.length === 0 ? [] : [`can't migrate VM which uses local devices: ${bound.join(", ")}`];
}

function unmappedAt(
  values: VmValues,
  node: string,
  mappings: readonly Mapping[] | undefined,
): readonly MappedResource[] {
  if (mappings === undefined) return [];
  return mappedResources(values).filter(({ type, id }) => {
    const mapping = mappings.find((each) => each.type === type && each.id === id);
    return mapping === undefined || entriesOn(mapping, node).length === 0;
  });
}

/** Throws what stands in the way. */
export function requireMovable(config: VmConfig, target: MoveTarget, facts: MoveFacts): void {
  const [first, ...more] = obstaclesAt(config, target, facts).reasons;
  if (first === undefined) return;
  throw refused(`cannot move the VM to node '${target.node}': ${[first, ...more].join("; ")}`);
}

function storageAt({ storage }: UsedVolume, { definitions, storageMap }: MoveFacts): string {
  const definition = definitions.find((each) => each.storage === storage);
  // What all nodes share stays where it is.
  if (storageMap === undefined || (definition !== undefined && isShared(definition))) return storage;
  return mapStorage(storageMap, storage);
}

function storageObstacle(
  storage: string,
  target: MoveTarget,
  definitions: readonly StorageDefinition[],
): string | undefined {
  const definition = definitions.find((each) => each.storage === storage);
  if (definition === undefined) return `storage '${storage}' does not exist`;
  if (isDisabled(definition)) return `storage '${storage}' is disabled`;
  if (!servesNode(definition, target.node))
    return `storage '${storage}' is not available on node '${target.node}': its 'nodes' do not name it`;
  if (target.storages !== undefined && target.isOnline && !target.storages.has(storage))
    return `storage '${storage}' is not active on node '${target.node}'`;
  return undefined;
}

function runningObstacles(values: VmValues, target: MoveTarget, facts: MoveFacts): string[] {
  const reasons: string[] = [];
  const bound = localResources(values);
  if (bound.length > 0)
    reasons.push(`it uses devices of its node (${bound.join(", ")}): stop it first, or take them away`);
  for (const { key, net } of listNets(values))
    if (net.bridge !== undefined && target.bridges?.includes(net.bridge) === false)
      reasons.push(`${key}: node '${target.node}' has no bridge '${net.bridge}'`);
  const needed = memoryMiB(values["memory"]) * MIB;
  if (target.freeMemory !== undefined && needed > target.freeMemory)
    reasons.push(
      `it needs ${Math.ceil(needed / MIB)} MiB of memory; node '${target.node}' has ${Math.floor(target.freeMemory / MIB)} MiB free`,
    );
  const flags = missingFlags(values, target, facts);
  if (flags.length > 0)
    reasons.push(`the CPU of node '${target.node}' has no ${listText(flags, 6)}, which the VM has now`);
  const { accelerator } = facts;
  if (accelerator !== undefined && target.accelerator !== undefined && accelerator !== target.accelerator)
    reasons.push(
      `it runs under ${accelerator}; guests of node '${target.node}' run under ${target.accelerator}`,
    );
  return reasons;
}

/** Only what it has where it runs can be missed. */
function missingFlags(
  values: VmValues,
  target: MoveTarget,
  { cpuFlags: here }: MoveFacts,
): readonly string[] {
  const { cpuFlags: there } = target;
  if (there === undefined) return [];
  const asked = cpuNeeds(values).cpuFlags ?? [];
  const has = hasHostCpu(values) ? (here ?? []) : asked.filter((flag) => here?.includes(flag) ?? true);
  return has.filter((flag) => !there.includes(flag));
}

export function unknownTarget(node: string): Error {
  return missing(`no such cluster node '${node}'`);
}
