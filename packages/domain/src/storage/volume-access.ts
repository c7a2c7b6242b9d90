// Who may use a volume: PVE's rules for one volume, on top of those for its storage.
import type { AccessView, Actor } from "../request/context.ts";
import { isRoot } from "../request/context.ts";
import type { VolumeType } from "./content.ts";
import type { StorageDefinition } from "./definition.ts";
import { storageRefused } from "./failures.ts";

export interface VolumeFacts {
  readonly storage: string;
  readonly volid: string;
  readonly type: VolumeType;
  readonly vmid?: number;
}

export interface VolumeAccessOptions {
  /** The guest on whose behalf: it may always use its own volumes. */
  readonly forVmid?: number;
  /** The content type the caller needs. */
  readonly as?: VolumeType;
}

/** Throws as PVE does when the actor may not use the volume. */
export function requireVolumeAccess(
  access: AccessView,
  volume: VolumeFacts,
  options: VolumeAccessOptions = {},
): void {
  const { storage, volid, type, vmid } = volume;
  const wanted = options.as;
  if (wanted !== undefined && type !== wanted && !(wanted === "rootdir" && type === "images")) {
    throw storageRefused(`unable to use volume ${volid} - content type needs to be '${wanted}'`);
  }
  const path = `/storage/${storage}`;
  if (access.has(path, ["Datastore.Allocate"])) return;
  if (type === "iso" || type === "vztmpl" || type === "import") {
    access.require(path, ["Datastore.AllocateSpace", "Datastore.Audit"], "any");
    return;
  }
  if (vmid !== undefined && vmid === options.forVmid) return;
  if (type === "backup" && vmid !== undefined) {
    access.require(path, ["Datastore.AllocateSpace"]);
    access.require(`/vms/${vmid}`, ["VM.Backup"]);
    return;
  }
  if ((type === "images" || type === "rootdir") && vmid !== undefined) {
    access.require(path, ["Datastore.Audit"]);
    access.require(`/vms/${vmid}`, ["VM.Config.Disk"]);
    return;
  }
  throw storageRefused(`missing privileges to access ${volid}`);
}

export function mayUseVolume(access: AccessView, volume: VolumeFacts): boolean {
  try {
    requireVolumeAccess(access, volume);
    return true;
  } catch {
    return false;
  }
}

/** Deleting a backup needs the right to back its guest up; deleting anything else the storage itself. */
export function requireVolumeRemoval(access: AccessView, volume: VolumeFacts): void {
  if (volume.type === "backup" && volume.vmid !== undefined) {
    access.require(`/storage/${volume.storage}`, ["Datastore.AllocateSpace"]);
    access.require(`/vms/${volume.vmid}`, ["VM.Backup"]);
    return;
  }
  access.require(`/storage/${volume.storage}`, ["Datastore.Allocate"]);
}

const DEFAULT_PROTECTED_LIMIT = 5;

/** How many backups of one guest may be protected; negative = any number. */
export function protectedLimit(definition: StorageDefinition, access: AccessView): number {
  const limit = definition.options["max-protected-backups"];
  if (typeof limit === "number") return limit;
  return access.has(`/storage/${definition.storage}`, ["Datastore.Allocate"]) ? -1 : DEFAULT_PROTECTED_LIMIT;
}

/** Paths of the host instead of volumes are root's alone. */
export function requireHostPathAccess(actor: Actor | undefined): void {
  if (actor === undefined || !isRoot(actor)) {
    throw storageRefused("Only root can pass arbitrary filesystem paths.");
  }
}
