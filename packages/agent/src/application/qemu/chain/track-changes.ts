// Dirty bitmaps around one backup: what is known of the disks' changes, and a new bitmap on each from its moment on.
import { requireHostFile, type BlockNode } from "@gpve/domain/storage/block-node.ts";
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import {
  BITMAP_GRANULARITY,
  bitmapOf,
  isAlwaysWhole,
  isChain,
  isOurBitmap,
  type BackupChains,
  type ChainDisk,
  type DiskNow,
  type GuestChains,
  type KnownBitmap,
} from "@gpve/domain/backup/backup-chain.ts";
import type { ImageBitmaps } from "@gpve/domain/backup/backup-ports.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { nodeName } from "@gpve/domain/vm/argv/block/block-node.ts";
import type { TransactionAction } from "@gpve/domain/vm/qmp/qmp-types.ts";
import { ignore } from "@gpve/kit/background.ts";
import { runningVm, type RunningPorts } from "../running-vm.ts";

export interface SavedDisk {
  readonly key: string;
  readonly volid: string;
  readonly node: BlockNode;
  readonly format: string;
  readonly size: number;
  /** A template's: it never changes, and is not written to. */
  readonly isBase: boolean;
}

/** Bitmaps of one VM's disks, of a running QEMU or of images nobody has open. */
export interface DiskBitmaps {
  list(disk: SavedDisk): Promise<readonly KnownBitmap[]>;
  /** Throws where the disk cannot have one. While QEMU runs the new bitmap waits for `enable`. */
  add(disk: SavedDisk, name: string): Promise<void>;
  remove(disk: SavedDisk, name: string): Promise<void>;
  /** From one moment on the new bitmaps take changes, and the old ones none. Nothing to do while nobody writes. */
  readonly switchActions: (
    disks: readonly SavedDisk[],
    added: string,
    old: string | undefined,
  ) => readonly TransactionAction[];
  /** The old bitmaps take what the new ones have and go on: the backup was not made. */
  takeBack(disk: SavedDisk, added: string, old: string): Promise<void>;
}

/** Of the QEMU that runs now, or of the images: a backup may end and start QEMU. */
export function bitmapsOf({
  host,
  tools,
  vmid,
}: {
  readonly host: RunningPorts & { readonly ids: { readonly sha256Hex: (text: string) => string } };
  readonly tools: ImageBitmaps;
  readonly vmid: number;
}): DiskBitmaps {
  const process = runningVm(host, vmid);
  return process === undefined ? imageFileBitmaps(tools) : runningBitmaps(process, host.ids.sha256Hex);
}

export function runningBitmaps(process: QemuProcess, sha256Hex: (text: string) => string): DiskBitmaps {
  const { qmp } = process;
  const node = (disk: SavedDisk): string => nodeName("f", disk.key, disk.volid, sha256Hex);
  const action = (type: string, disk: SavedDisk, name: string): TransactionAction => ({
    type,
    data: { node: node(disk), name },
  });
  return {
    async list(disk) {
      const nodes = await qmp.execute("query-named-block-nodes", { flat: true });
      const found = nodes.find((each) => each["node-name"] === node(disk))?.["dirty-bitmaps"] ?? [];
      return found.map(({ name = "", inconsistent = false, recording }) => ({
        name,
        inconsistent,
        recording,
      }));
    },
    async add(disk, name) {
      await qmp.execute("block-dirty-bitmap-add", {
        node: node(disk),
        name,
        granularity: BITMAP_GRANULARITY,
        persistent: disk.format === "qcow2",
        disabled: true,
      });
    },
    async remove(disk, name) {
      await qmp.execute("block-dirty-bitmap-remove", { node: node(disk), name });
    },
    switchActions: (disks, added, old) =>
      disks.flatMap((disk) => [
        action("block-dirty-bitmap-enable", disk, added),
        ...(old === undefined ? [] : [action("block-dirty-bitmap-disable", disk, old)]),
      ]),
    async takeBack(disk, added, old) {
      await qmp.execute("transaction", {
        actions: [
          action("block-dirty-bitmap-enable", disk, old),
          {
            type: "block-dirty-bitmap-merge",
            data: { node: node(disk), target: old, bitmaps: [added] },
          },
        ],
      });
    },
  };
}

const bitmapFile = (image: BlockNode): string => requireHostFile(image, "a dirty bitmap of a stopped VM");

export function imageFileBitmaps(tools: ImageBitmaps): DiskBitmaps {
  return {
    async list({ format, node: image }) {
      if (format !== "qcow2") return [];
      return tools.imageBitmaps(bitmapFile(image));
    },
    async add({ format, node: image }, name) {
      if (format !== "qcow2") throw new RangeError(`a stopped VM's ${format} image keeps no dirty bitmap`);
      await tools.addImageBitmap(bitmapFile(image), name);
    },
    remove: ({ node: image }, name) => tools.removeImageBitmap(bitmapFile(image), name),
    switchActions: () => [],
    takeBack: async () => undefined,
  };
}

/** What planning needs to know of each disk. */
export async function disksNow(bitmaps: DiskBitmaps, disks: readonly SavedDisk[]): Promise<DiskNow[]> {
  const rows: DiskNow[] = [];
  for (const disk of disks) {
    const { key, volid, size, format } = disk;
    rows.push({ key, volid, size, format, bitmaps: isAlwaysWhole(key) ? [] : await bitmaps.list(disk) });
  }
  return rows;
}

/**
 * A new bitmap on every disk that can have one, named after the archive that is about to be written. Bitmaps that
 * belong to no backup any more go. Whatever fails, the backup itself does not.
 */
export async function addBitmaps(
  bitmaps: DiskBitmaps,
  disks: readonly SavedDisk[],
  uuid: string,
  chains: GuestChains,
): Promise<{ readonly tracked: readonly SavedDisk[]; readonly chainDisks: Record<string, ChainDisk> }> {
  const wanted = new Set(
    Object.values(chains).flatMap((state) => (isChain(state) ? [bitmapOf(state.uuid)] : [])),
  );
  const tracked: SavedDisk[] = [];
  const chainDisks: Record<string, ChainDisk> = {};
  for (const disk of disks) {
    const { key, volid, size } = disk;
    if (isAlwaysWhole(key)) {
      chainDisks[key] = { volid, size };
      continue;
    }
    try {
      if (disk.isBase) throw new RangeError("a template's disks do not change");
      for (const { name, inconsistent } of await bitmaps.list(disk))
        if (isOurBitmap(name) && (inconsistent || !wanted.has(name))) await bitmaps.remove(disk, name);
      await bitmaps.add(disk, bitmapOf(uuid));
      tracked.push(disk);
      chainDisks[key] = { volid, size };
    } catch (err) {
      const why = isAppError(err) ? messageOf(err) : (err as Error).message;
      chainDisks[key] = { volid, size, untracked: why };
    }
  }
  return { tracked, chainDisks };
}

export async function removeBitmaps(
  bitmaps: DiskBitmaps,
  disks: readonly SavedDisk[],
  uuid: string,
): Promise<void> {
  for (const disk of disks) {
    await bitmaps
      .remove(disk, bitmapOf(uuid))
      .catch((err: unknown) => ignore(err, "a bitmap without its backup is removed by the next one"));
  }
}

/**
 * A QEMU that was killed leaves bitmaps that nobody can trust, and beside which no disk grows: the next one removes
 * them as it starts, and the next backup is full.
 */
export async function dropInconsistentBitmaps(
  chains: BackupChains,
  vmid: number,
  { qmp }: QemuProcess,
): Promise<void> {
  if (!Object.values(chains.get(vmid)).some((state) => isChain(state))) return;
  const nodes = await qmp.execute("query-named-block-nodes", { flat: true });
  const found = nodes.flatMap((node) =>
    (node["dirty-bitmaps"] ?? [])
      .filter(({ name = "", inconsistent = false }) => inconsistent && isOurBitmap(name))
      .map(({ name = "" }) => ({ node: node["node-name"] ?? "", name })),
  );
  if (found.length === 0) return;
  await chains.drop(vmid, "QEMU did not end as it should, its dirty bitmaps are inconsistent");
  for (const bitmap of found) await qmp.execute("block-dirty-bitmap-remove", bitmap);
}
