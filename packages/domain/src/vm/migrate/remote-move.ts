// A VM as another cluster is asked to make it: its disks come out of files that were uploaded there.
import { parseVolumeId } from "../../storage/volume-id.ts";
import { conflict, parameterError } from "../../request/failures.ts";
import { readPropertyString } from "../../schema/property-string.ts";
import { driveFile, isCdrom, isCloudinitVolume, listDrives } from "../config/drive.ts";
import type { VmConfig } from "../config/vm-config.ts";
import { localResources } from "./movable.ts";
import { mapStorage, type StorageMap } from "./storage-map.ts";

export interface RemoteEndpoint {
  readonly host: string;
  readonly port: number;
  /** "root@pam!move=…" */
  readonly apitoken: string;
  readonly fingerprint?: string;
}

/** A disk that goes over, as it is called here and there. */
export interface RemoteDisk {
  readonly key: string;
  readonly volid: string;
  /** Where it goes. */
  readonly storage: string;
}

const DEFAULT_PORT = 8006;
const KIB = 1024;
const GIB = 1024 ** 3;
/** Of the place where it is, or made anew by whoever makes the VM. */
const NOT_ALONG = /^(?:digest|lock|parent|meta|vmgenid|vmstate|runningmachine|runningcpu|unused\d+)$/;

export function parseRemoteEndpoint(text: string): RemoteEndpoint {
  const { host, port, apitoken, fingerprint } = readPropertyString("proxmox-remote", text, "target-endpoint");
  const token = /^(?:PVEAPIToken=)?(.+)$/.exec(String(apitoken))?.[1] ?? "";
  if (host === undefined || !token.includes("!"))
    throw parameterError({ "target-endpoint": "needs host and apitoken" });
  return {
    host: String(host),
    port: port === undefined ? DEFAULT_PORT : Number(port),
    apitoken: token,
    ...(fingerprint === undefined ? {} : { fingerprint: String(fingerprint) }),
  };
}

/** Throws what keeps it from leaving the cluster. */
export function remoteDisks(vmid: number, config: VmConfig, map: StorageMap): readonly RemoteDisk[] {
  const snapshots = Object.keys(config.snapshots);
  if (snapshots.length > 0)
    throw conflict(
      `VM ${vmid} has snapshots (${snapshots.join(", ")}), which cannot leave the cluster: delete them first`,
    );
  const unused = Object.keys(config.values).filter((key) => /^unused\d+$/.test(key));
  if (unused.length > 0)
    throw conflict(
      `VM ${vmid} has unused disks (${unused.join(", ")}), which do not go along: attach or remove them first`,
    );
  return listDrives(config.values).flatMap(({ key, drive }) => {
    const storage = parseVolumeId(drive.file)?.storage;
    if (storage === undefined || isCdrom(drive) || isCloudinitVolume(drive.file)) return [];
    return [{ key, volid: drive.file, storage: mapStorage(map, storage) }];
  });
}

/** Throws what a VM that runs cannot take along: where it is off, it is left out or made anew. */
export function requireLeavable(vmid: number, config: VmConfig): void {
  const discs = leftDiscs(config);
  if (discs.length > 0)
    throw conflict(
      `VM ${vmid} runs with discs that stay in this cluster (${discs.join(", ")}): take them out first`,
    );
  const bound = localResources(config.values);
  if (bound.length > 0)
    throw conflict(
      `VM ${vmid} runs with devices of this node (${bound.join(", ")}): stop it first, or take them away`,
    );
  if (config.values["tpmstate0"] !== undefined)
    throw conflict(`VM ${vmid} runs with a TPM, whose state is not sent to other clusters: shut it down`);
  const pending = Object.keys(config.pending);
  if (pending.length > 0)
    throw conflict(
      `VM ${vmid} has changes that wait for its next start (${pending.join(", ")}): take them back, or start it anew first`,
    );
}

/** What a disk there is made of: a file that was uploaded, or nothing yet. */
export type DiskOrigin = { readonly file: string } | { readonly bytes: number };

/** Parameters of `POST /nodes/{node}/qemu` there; `origins` by the keys of disks. */
export function remoteCreateParams(
  config: VmConfig,
  vmid: number,
  disks: readonly RemoteDisk[],
  origins: Readonly<Record<string, DiskOrigin>>,
  maps: { readonly storages: StorageMap; readonly bridges: StorageMap },
): Record<string, string> {
  const params: Record<string, string> = { vmid: String(vmid) };
  const drives = new Map(listDrives(config.values).map(({ key, drive }) => [key, drive]));
  for (const [key, text] of Object.entries(config.values)) {
    if (NOT_ALONG.test(key)) continue;
    const drive = drives.get(key);
    const disk = disks.find((each) => each.key === key);
    if (drive === undefined)
      params[key] = /^net\d+$/.test(key)
        ? text.replace(/(?<=(?:^|,)bridge=)[^,]+/, (bridge) => mapStorage(maps.bridges, bridge))
        : text;
    else if (disk !== undefined) {
      const options = text
        .split(",")
        .filter((part) => part !== driveFile(text) && !/^(?:file|volume|size|format)=/.test(part));
      params[key] = [...madeOf(disk, origins[key]), ...options].join(",");
    } else if (isCloudinitVolume(drive.file)) {
      const storage = parseVolumeId(drive.file)?.storage ?? "";
      params[key] = `${mapStorage(maps.storages, storage)}:cloudinit`;
    } else params[key] = "none,media=cdrom";
  }
  return params;
}

function madeOf({ key, storage }: RemoteDisk, origin: DiskOrigin | undefined): readonly string[] {
  if (origin !== undefined && "bytes" in origin) {
    if (origin.bytes % KIB !== 0)
      throw conflict(`${key} has ${origin.bytes} bytes, no whole KiB: resize it, or shut the VM down first`);
    return [`${storage}:${origin.bytes / GIB}`];
  }
  return [`${storage}:0`, `import-from=${origin?.file ?? ""}`];
}

/** Discs that stay behind. */
export function leftDiscs({ values }: VmConfig): readonly string[] {
  return listDrives(values)
    .filter(({ drive }) => isCdrom(drive) && !isCloudinitVolume(drive.file) && drive.file !== "none")
    .map(({ key, drive }) => `${key} (${drive.file})`);
}
