// Copies of other nodes' VMs that this node keeps. What comes is written beside the copy first, and put into it only when
// all of it is there: whatever breaks, the copy is of one moment. A whole delivery that was not put in yet is put in by
// whoever looks next, from its beginning.
import { given } from "@gpve/contracts/given.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import type {
  ChangesWriter,
  BackupArchives,
  NodeFiles,
  OpenDisks,
  DiskAccess,
  IncrementalReader,
} from "@gpve/domain/backup/backup-ports.ts";
import type {
  Replica,
  ReplicaDisk,
  ReplicaKeeper,
  ReplicaNotes,
  ReplicaOffer,
  ReplicaVolume,
} from "@gpve/domain/replication/replica.ts";
import { conflict, missing, refused } from "@gpve/domain/request/failures.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import type { DiskFormat } from "@gpve/domain/storage/block-node.ts";
import { formatVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { usedVolumes } from "@gpve/domain/vm/migrate/movable.ts";
import { KeyedQueue } from "@gpve/kit/keyed-queue.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import { runningVm, type RunningPorts } from "../running-vm.ts";

export interface ReplicasDeps extends RunningPorts {
  readonly configs: Pick<VmConfigs, "has" | "get">;
  readonly storages: GuestStorages;
  readonly tools: BackupArchives & OpenDisks & NodeFiles;
  readonly notes: ReplicaNotes;
}

interface Delivery {
  readonly offer: ReplicaOffer;
  readonly from: string;
}

const NOTE = "replica.json";
const NO_PARENT = "0".repeat(32);

export class Replicas implements ReplicaKeeper {
  readonly #deps: ReplicasDeps;
  readonly #queue = new KeyedQueue();
  /** What is coming for VMs; one that is not here any more has come too late. */
  readonly #open = new Map<number, Delivery>();

  constructor(deps: ReplicasDeps) {
    this.#deps = deps;
  }

  state(vmid: number): Promise<Replica | undefined> {
    return this.#alone(vmid, async () => {
      try {
        await this.#putIn(vmid);
      } catch {
        // What cannot be put in is of no use: all of it is sent again.
        return undefined;
      }
      return this.#deps.notes.get(vmid);
    });
  }

  async begin(offer: ReplicaOffer, from: string): Promise<ChangesWriter> {
    const { vmid } = offer;
    if (this.#deps.configs.has(vmid)) throw conflict(`VM ${vmid} is this node's own: it keeps no copy of it`);
    if (runningVm(this.#deps, vmid) !== undefined)
      throw conflict(
        `VM ${vmid} still runs here though it is another node's: end its process (qemu-system, guest=…-${vmid}) first`,
      );
    if (this.#open.has(vmid)) throw conflict(`a copy of VM ${vmid} is coming already`);
    const kept = this.#deps.notes.get(vmid);
    if (offer.base !== undefined && kept?.generation !== offer.base)
      throw conflict(`the copy of VM ${vmid} here is not the one that the changes build on`);
    await this.#requireRoom(offer, kept);
    const delivery = { offer, from };
    this.#open.set(vmid, delivery);
    try {
      return await this.#writer(delivery);
    } catch (err) {
      this.#open.delete(vmid);
      throw err;
    }
  }

  async #writer(delivery: Delivery): Promise<ChangesWriter> {
    const { tools, notes } = this.#deps;
    const { vmid, generation, base = NO_PARENT, at, disks } = delivery.offer;
    const writer = await tools.createIncremental(notes.delivery(vmid), {
      uuid: generation,
      ctime: at,
      parent: { name: "replica", uuid: base },
      configs: new Map([[NOTE, Buffer.from(JSON.stringify(delivery))]]),
      devices: disks.map(({ key, bytes, isWhole }) => ({
        name: `drive-${key}`,
        size: bytes,
        whole: isWhole,
      })),
    });
    return {
      data: (device, offset, data) => writer.data(device, offset, data),
      zeroes: (device, offset, length) => writer.zeroes(device, offset, length),
      finish: async () => {
        await writer.finish();
        await this.#alone(vmid, async () => {
          if (this.#open.get(vmid) !== delivery) {
            await tools.removeFile(notes.delivery(vmid));
            throw conflict(`the copy of VM ${vmid} has taken over: nothing more is put into it`);
          }
          this.#open.delete(vmid);
          await this.#putIn(vmid);
        });
      },
      abandon: async () => {
        if (this.#open.get(vmid) === delivery) this.#open.delete(vmid);
        await writer.abandon();
      },
    };
  }

  /** The copy as it can take the VM's place; throws when there is none. */
  recover(vmid: number): Promise<Replica> {
    return this.#alone(vmid, async () => {
      await this.#putIn(vmid).catch((cause: unknown) => {
        throw conflict(`the copy of VM ${vmid} cannot be brought up to date: ${messageOf(cause)}`, { cause });
      });
      // What still comes is of a VM that goes on elsewhere.
      this.#open.delete(vmid);
      const replica = this.#deps.notes.get(vmid);
      if (replica === undefined) throw missing(`this node keeps no copy of VM ${vmid}`);
      for (const { volid } of replica.volumes) {
        const { plugin, volname } = volumeOf(this.#deps, volid);
        await plugin.activate();
        await plugin.info(volname);
      }
      return replica;
    });
  }

  /** `keep`: its volumes stay. Volumes that a VM of this node has stay in any case. */
  drop(vmid: number, keep: boolean): Promise<void> {
    return this.#alone(vmid, async () => {
      const { notes, tools, configs } = this.#deps;
      await tools.removeFile(notes.delivery(vmid));
      const replica = notes.get(vmid);
      if (replica === undefined) return;
      const used = new Set(configs.has(vmid) ? usedVolumes(configs.get(vmid)).map(({ volid }) => volid) : []);
      for (const { volid } of keep ? [] : replica.volumes) if (!used.has(volid)) await this.#free(volid);
      notes.remove(vmid);
    });
  }

  /** Looks before anything is sent: the volumes of a copy may not take the place of anything else. */
  async #requireRoom(offer: ReplicaOffer, kept: Replica | undefined): Promise<void> {
    const { storages } = this.#deps;
    const ours = new Set([...(kept?.volumes.map(({ volid }) => volid) ?? []), ...(offer.replaces ?? [])]);
    for (const disk of offer.disks) {
      const plugin = storages.plugin(disk.storage);
      if (!contentOf(storages.definition(disk.storage)).has("images"))
        throw refused(`storage '${disk.storage}' does not support vm images`);
      await plugin.activate();
      const volid = this.#nameOf(offer.vmid, disk);
      if (ours.has(volid)) continue;
      const { volname } = volumeOf(this.#deps, volid);
      const there = await plugin.list({ content: ["images"], ...given({ vmid: offer.vmid }) });
      if (there.some((each) => each.volname === volname))
        throw conflict(
          `volume '${volid}' is there and is no copy of VM ${offer.vmid}'s disk: look whether it is needed, and remove it`,
        );
    }
  }

  async #putIn(vmid: number): Promise<void> {
    const { tools, notes } = this.#deps;
    if (!notes.hasDelivery(vmid)) return;
    const path = notes.delivery(vmid);
    // The copy's volumes are a VM's disks now.
    if (this.#deps.configs.has(vmid)) return tools.removeFile(path);
    const reader = await tools.openIncremental(path);
    const { offer, from } = JSON.parse(
      Buffer.from(reader.header.configs.get(NOTE) ?? []).toString("utf8"),
    ) as Delivery;
    const kept = notes.get(vmid);
    const volumes: ReplicaVolume[] = [];
    for (const disk of offer.disks) volumes.push(await this.#volume(offer, disk));
    await this.#write(offer.disks, volumes, reader);
    const wanted = new Set(volumes.map(({ volid }) => volid));
    for (const { volid } of kept?.volumes ?? []) if (!wanted.has(volid)) await this.#free(volid);
    const { job, generation, at } = offer;
    notes.set({ vmid, job, generation, at, from, volumes });
    await tools.removeFile(path);
  }

  /** A whole disk gets a new volume; of another one the volume grows with it. */
  async #volume(offer: ReplicaOffer, disk: ReplicaDisk): Promise<ReplicaVolume> {
    const { vmid } = offer;
    const { key, volid: source, bytes } = disk;
    const volid = this.#nameOf(vmid, disk);
    const { plugin, volname } = volumeOf(this.#deps, volid);
    await plugin.activate();
    if (disk.isWhole) {
      await plugin.free(volname);
      const { name, format } = plugin.parse(volname);
      await plugin.alloc({ vmid, name, format: format as DiskFormat, size: bytes });
    } else if ((await plugin.info(volname)).size < bytes) await plugin.resize(volname, bytes);
    return { key, source, volid, bytes };
  }

  async #write(
    disks: readonly ReplicaDisk[],
    volumes: readonly ReplicaVolume[],
    reader: IncrementalReader,
    opened: readonly DiskAccess[] = [],
  ): Promise<void> {
    const next = volumes[opened.length];
    if (next !== undefined) {
      const { plugin, volname } = volumeOf(this.#deps, next.volid);
      const { node, format } = await plugin.attach(volname);
      return this.#deps.tools.withImage({ node, format, access: "rw" }, (disk) =>
        this.#write(disks, volumes, reader, [...opened, disk]),
      );
    }
    for await (const { device, offset, length, data } of reader.extents()) {
      const disk = opened[device];
      if (disk === undefined) throw refused(`the delivery has a disk ${device} that was not offered`);
      if (data === undefined) await disk.writeZeroes(offset, length);
      else await disk.write(offset, data);
    }
    for (const disk of opened) await disk.flush();
  }

  /** As it is called at the VM's node, where that can be. */
  #nameOf(vmid: number, { storage, volid, format }: ReplicaDisk): string {
    const plugin = this.#deps.storages.plugin(storage);
    const plain = volid.replace(/^.*[:/]/, "").replace(/\.[a-z0-9]+$/, "");
    if (!new RegExp(`^vm-${vmid}-[a-z0-9-]+$`).test(plain))
      throw refused(`volume '${volid}' is no disk of VM ${vmid}: it cannot be copied`);
    const { volname } = plugin.own(vmid, plain, plugin.format(format));
    return formatVolumeId({ storage, volname });
  }

  async #free(volid: string): Promise<void> {
    const { plugin, volname } = volumeOf(this.#deps, volid);
    await plugin.activate();
    await plugin.free(volname);
  }

  #alone<T>(vmid: number, work: () => Promise<T>): Promise<T> {
    return this.#queue.run(String(vmid), work);
  }
}
