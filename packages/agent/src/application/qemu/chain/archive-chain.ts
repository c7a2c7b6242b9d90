// An incremental archive with all that it builds on, read as if it were one full archive.
import { refused } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import type {
  ArchiveCluster,
  ArchiveHeader,
  ArchiveReader,
  BackupArchives,
  IncrementalReader,
  ParentArchive,
} from "@gpve/domain/backup/backup-ports.ts";
import { MAX_CHAIN } from "@gpve/domain/backup/backup-chain.ts";
import { parseBackupName } from "@gpve/domain/storage/backup-name.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";

/** One archive of a chain, opened; it is read once. */
export interface ChainLink {
  readonly name: string;
  readonly uuid: string | undefined;
  readonly parent: ParentArchive | undefined;
  readonly configs: ReadonlyMap<string, Uint8Array>;
  readonly devices: readonly { readonly name: string; readonly size: number; readonly whole: boolean }[];
  readonly ctime: number;
  parts(): AsyncIterable<Part>;
  close(): Promise<void>;
}

interface Part {
  readonly device: string;
  readonly offset: number;
  readonly length: number;
  /** undefined = zeroes. */
  readonly data: Uint8Array | undefined;
}

/** Zeroes are given out in pieces of this size. */
const ZERO_BYTES = 1024 * 1024;

export async function openLink(
  tools: BackupArchives,
  plugin: StoragePlugin,
  name: string,
): Promise<ChainLink> {
  const path = await plugin.file(`backup/${name}`);
  if (parseBackupName(name)?.container === "gpvi")
    return incrementalLink(name, await tools.openIncremental(path));
  const reader = await tools.openArchive(path);
  const { uuid, configs, ctime, devices } = reader.header;
  return {
    name,
    uuid,
    parent: undefined,
    configs,
    ctime,
    devices: devices.map((device) => ({ name: device.name, size: device.size, whole: true })),
    async *parts() {
      for await (const { device, offset, data, isZero } of reader.clusters())
        yield { device: device.name, offset, length: data.length, data: isZero ? undefined : data };
    },
    close: () => reader.close(),
  };
}

function incrementalLink(name: string, reader: IncrementalReader): ChainLink {
  const { uuid, parent, configs, ctime, devices } = reader.header;
  return {
    name,
    uuid,
    parent,
    configs,
    ctime,
    devices,
    async *parts() {
      for await (const { device, ...part } of reader.extents())
        yield { device: devices[device]?.name ?? "", ...part };
    },
    close: () => reader.close(),
  };
}

/**
 * Opens an archive with all its ancestors. Nothing is taken on trust: the chain is read to its end before this
 * resolves, so that a cut, wrong or missing archive is known before anything is made or overwritten.
 */
export async function openChain(
  tools: BackupArchives,
  plugin: StoragePlugin,
  name: string,
  signal?: AbortSignal,
): Promise<ArchiveReader> {
  const names = await verifiedNames(tools, plugin, name, signal);
  const [newest] = names.slice(-1);
  if (newest === undefined) throw new RangeError("a chain has one archive at least");
  const head = await openLink(tools, plugin, newest.name);
  await head.close();
  const header: ArchiveHeader = {
    ...given({ uuid: head.uuid }),
    ctime: head.ctime,
    configs: head.configs,
    devices: head.devices.map(({ name: device, size }, index) => ({ id: index + 1, name: device, size })),
  };
  return {
    header,
    clusters: () => mergedParts(tools, plugin, names, header),
    close: async () => undefined,
  };
}

interface VerifiedLink {
  readonly name: string;
  readonly devices: ChainLink["devices"];
}

/** Oldest first. */
async function verifiedNames(
  tools: BackupArchives,
  plugin: StoragePlugin,
  name: string,
  signal?: AbortSignal,
): Promise<VerifiedLink[]> {
  const chain: VerifiedLink[] = [];
  let wanted: { readonly name: string; readonly uuid?: string } | undefined = { name };
  while (wanted !== undefined) {
    if (chain.length > MAX_CHAIN * 2) throw refused(`the chain of backup '${name}' has no end`);
    const link: ChainLink = await openParent(tools, plugin, wanted, chain[0]?.name);
    for await (const _part of link.parts()) signal?.throwIfAborted();
    chain.unshift({ name: link.name, devices: link.devices });
    wanted = link.parent;
  }
  return chain;
}

async function openParent(
  tools: BackupArchives,
  plugin: StoragePlugin,
  wanted: { readonly name: string; readonly uuid?: string },
  child: string | undefined,
): Promise<ChainLink> {
  if (child === undefined) return openLink(tools, plugin, wanted.name);
  const link = await openLink(tools, plugin, wanted.name).catch((cause: unknown) => {
    throw refused(`backup '${child}' builds on '${wanted.name}': ${messageOf(cause)}`, { cause });
  });
  if (link.uuid === wanted.uuid) return link;
  await link.close();
  throw refused(`backup '${child}' builds on another archive than the '${wanted.name}' that is there`);
}

/** Of every disk: from the archive on that has it whole, oldest first. */
async function* mergedParts(
  tools: BackupArchives,
  plugin: StoragePlugin,
  chain: readonly VerifiedLink[],
  header: ArchiveHeader,
): AsyncGenerator<ArchiveCluster> {
  const first = new Map(
    header.devices.map(({ name }) => [
      name,
      chain.findLastIndex(({ devices }) => devices.some((each) => each.name === name && each.whole)),
    ]),
  );
  for (const [name, index] of first)
    if (index < 0) throw refused(`no archive of the chain has disk '${name}' whole`);
  for (const [index, { name }] of chain.entries()) {
    const link = await openLink(tools, plugin, name);
    for await (const part of link.parts()) {
      const size = header.devices.find((device) => device.name === part.device)?.size;
      const from = first.get(part.device) ?? chain.length;
      if (size === undefined || index < from) continue;
      yield* pieces(part, size, index > from);
    }
  }
}

function* pieces(part: Part, size: number, overwrites: boolean): Generator<ArchiveCluster> {
  const device = { name: part.device };
  const end = Math.min(part.offset + part.length, size);
  if (part.data !== undefined) {
    if (end > part.offset)
      yield {
        device,
        offset: part.offset,
        data: part.data.subarray(0, end - part.offset),
        isZero: false,
        overwrites,
      };
    return;
  }
  for (let offset = part.offset; offset < end; offset += ZERO_BYTES)
    yield {
      device,
      offset,
      data: ZEROES.subarray(0, Math.min(ZERO_BYTES, end - offset)),
      isZero: true,
      overwrites,
    };
}

const ZEROES = Buffer.alloc(ZERO_BYTES);
