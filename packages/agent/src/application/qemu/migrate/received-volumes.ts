// Volumes that are made at the node a VM moves to, and filled while it comes.
import { given } from "@gpve/contracts/given.ts";
import type { MoveOffer, MoveSource } from "@gpve/domain/guest/move-channel.ts";
import { refused } from "@gpve/domain/request/failures.ts";
import { imageFormats, type ImageFormat } from "@gpve/domain/storage/content.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import { formatVolumeId } from "@gpve/domain/storage/volume-id.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { isQmpRefusal } from "@gpve/domain/vm/qmp/qmp-errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import { freeVolume, type FreeVolumesPorts } from "../config/free-volumes.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";

export interface MakeWork {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  /** Told of every volume before the next is made. */
  readonly made: (volid: string) => Promise<void>;
}

export async function makeReceivedVolumes(
  host: { readonly storages: GuestStorages },
  vmid: number,
  offer: MoveOffer,
  { signal, log, made }: MakeWork,
): Promise<Record<string, string>> {
  const names: Record<string, string> = {};
  for (const { volid, storage, format, bytes, isLive } of offer.volumes) {
    const plugin = host.storages.plugin(storage);
    requireImages(host, storage);
    await plugin.activate();
    if (!isLive) continue;
    const volname = await plugin.alloc({ vmid, format: plugin.format(format), size: bytes }, { signal, log });
    names[volid] = formatVolumeId({ storage, volname });
    await made(names[volid]);
    log(`made ${names[volid]} for ${volid}`);
  }
  return names;
}

export interface ReceiveVolumePorts {
  readonly storages: GuestStorages;
  /** Whether a volume belongs to the copy of the VM that this node keeps. */
  readonly isOfCopy: (vmid: number, volid: string) => boolean;
}

/** A volume that nobody has open comes as it is. */
export async function receiveVolume(
  host: ReceiveVolumePorts,
  vmid: number,
  offer: MoveOffer,
  volid: string,
  { format, size, body }: MoveSource,
  { signal, log, made }: MakeWork,
): Promise<string> {
  const wanted = offer.volumes.find((each) => each.volid === volid);
  if (wanted === undefined || wanted.isLive || !isFormat(format))
    throw refused(`volume '${volid}' was not offered`);
  const { storage } = wanted;
  const plugin = host.storages.plugin(storage);
  const plain = volid.replace(/^.*[:/]/, "").replace(/\.[a-z0-9]+$/, "");
  // Disks get the next free name; what goes by its name keeps it.
  const isNamed = /^base-|-cloudinit$|-state-/.test(plain) && format !== "subvol";
  const own = isNamed ? plugin.own(vmid, plain, format) : undefined;
  const isTaken = own !== undefined && host.isOfCopy(vmid, formatVolumeId({ storage, volname: own.volname }));
  const name = isTaken ? undefined : own?.name;
  const volname = await plugin.importStream(
    { format, size, body },
    { vmid, ...given({ name }) },
    { signal, log },
  );
  const volidHere = formatVolumeId({ storage, volname });
  await made(volidHere);
  if (!isTaken) {
    log(`received ${volidHere} (${volid})`);
    return volidHere;
  }
  // The copy has the name: what came takes its place, and stays the copy's should the VM not come after all.
  await plugin.free(own.volname);
  const renamed = formatVolumeId({ storage, volname: await plugin.rename(volname, vmid, own.name) });
  log(`received ${renamed} (${volid}), in place of the copy that was here`);
  return renamed;
}

function isFormat(text: string): text is ImageFormat {
  return (imageFormats as readonly string[]).includes(text);
}

function requireImages(host: { readonly storages: GuestStorages }, storage: string): void {
  if (!contentOf(host.storages.definition(storage)).has("images"))
    throw refused(`storage '${storage}' does not support vm images`);
}

/** The same configuration with other names of volumes, in every section. */
export function withVolumes(conf: string, names: Readonly<Record<string, string>>): string {
  let text = conf;
  for (const [before, after] of Object.entries(names)) {
    const name = before.replaceAll(/[.*+?^${}()|[\]\\/]/g, String.raw`\$&`);
    text = text.replaceAll(new RegExp(`(?<=^[a-z0-9]+: (?:file=)?)${name}(?=,|$)`, "gm"), after);
  }
  return text;
}

/**
 * Blocks of disks that the guest has open come over NBD, to nodes of their own: those of the guest's drives belong to its
 * I/O threads, where QEMU 7.2 cannot serve, and are read again when the guest goes on.
 */
export async function serveReceivedVolumes(
  host: { readonly storages: GuestStorages },
  process: QemuProcess,
  /** By the keys of drives. */
  volids: Readonly<Record<string, string>>,
): Promise<void> {
  const live = Object.entries(volids);
  if (live.length === 0) return;
  const { qmp } = process;
  await qmp.raw("nbd-server-start", {
    addr: { type: "unix", data: { path: `${process.ioFolder}/nbd` } },
    "max-connections": 0,
  });
  for (const [key, volid] of live) {
    const { plugin, volname } = volumeOf(host, volid);
    const { node, format } = await plugin.attach(volname);
    await qmp.raw("blockdev-add", {
      driver: format,
      "node-name": nodeOf(key),
      discard: "unmap",
      file: { ...node, "node-name": `${nodeOf(key)}-file` },
    });
    const name = { "node-name": nodeOf(key), name: key };
    await qmp.raw("block-export-add", { type: "nbd", id: nodeOf(key), ...name, writable: true });
  }
}

function nodeOf(key: string): string {
  return `arrive-${key}`;
}

/** What came is whole: nobody writes to it any more but the guest. */
export async function stopServing({ qmp }: QemuProcess): Promise<void> {
  await qmp.raw("nbd-server-stop").catch((err: unknown) => {
    if (!isQmpRefusal(err)) throw err;
    ignore(err, "nothing was served");
  });
  const nodes = await qmp.execute("query-named-block-nodes", { flat: true });
  for (const { "node-name": name = "" } of nodes)
    if (/^arrive-[a-z]+\d+$/.test(name)) await qmp.execute("blockdev-del", { "node-name": name });
}

export async function freeMade(
  host: FreeVolumesPorts,
  volids: readonly string[],
  log: (line: string) => void,
): Promise<void> {
  for (const volid of volids) await freeVolume(host, volid, log);
}
