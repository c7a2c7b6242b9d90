// A VM as another cluster is asked to make it: its disks come out of files that were uploaded there.
import { parseVolumeId } from "../../storage/volume-id.ts";
import { conflict, parameterError } from "../../request/failures.ts";
import { readPropertyString } from "../../schema/property-string.ts";
import { driveFile, isCdrom, isCloudinitVolume, listDrives } from "../config/drive.ts";
import type { VmConfig } from "../config/vm-config.ts";
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

/** Parameters of `POST /nodes/{node}/qemu` there; `files` are what the disks were uploaded as, by their keys. */
export function remoteCreateParams(
  config: VmConfig,
  vmid: number,
  disks: readonly RemoteDisk[],
  files: Readonly<Record<string, string>>,
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
      const made = [`${disk.storage}:0`, `import-from=${files[key] ?? ""}`];
      params[key] = [...made, ...options].join(",");
    } else if (isCloudinitVolume(drive.file)) {
      const storage = parseVolumeId(drive.file)?.storage ?? "";
      params[key] = `${mapStorage(maps.storages, storage)}:cloudinit`;
    } else params[key] = "none,media=cdrom";
  }
  return params;
}

/** Discs that stay behind. */
export function leftDiscs({ values }: VmConfig): readonly string[] {
  return listDrives(values)
    .filter(({ drive }) => isCdrom(drive) && !isCloudinitVolume(drive.file) && drive.file !== "none")
    .map(({ key, drive }) => `${key} (${drive.file})`);
}
