// Directories of the host in a guest: one virtiofsd for each, in a process of its own. QEMU connects to it and shares
// the guest's memory with it. It acts as whoever owns the files, so it is root, but sees nothing except its directory.
import { fileServerBounds } from "@gpve/domain/vm/running/vm-bounds.ts";
import type { HostMappings } from "@gpve/domain/vm/host/host-mappings.ts";
import type { GuestFile } from "@gpve/domain/guest/guest-processes.ts";
import type { VirtioFs } from "@gpve/domain/vm/config/property-types.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import { mappedDirectory } from "../start/take-devices.ts";
import { type HelperPorts, startFailed, stopHelper, untilListening } from "./listening-helper.ts";

export interface VirtiofsPorts extends HelperPorts {
  readonly mappings: HostMappings;
}

const PROGRAM = "/usr/lib/qemu/virtiofsd";
/** It wants to know it before it looks at its options. */
const FILE_MAX = "/proc/sys/fs/file-max";
const MAX_SHARES = 10;
/** PVE's word -> virtiofsd's. */
const CACHE: Readonly<Record<string, string>> = {
  always: "always",
  never: "none",
  metadata: "auto",
  auto: "auto",
};

export function fileServerId(vmid: number, index: number): string {
  return `${vmid}-fs${index}`;
}

/** What QEMU must be able to open. Nothing runs when it throws. */
export async function startFileServers(
  host: VirtiofsPorts,
  vmid: number,
  values: VmValues,
  signal: AbortSignal,
): Promise<readonly GuestFile[]> {
  const sockets: GuestFile[] = [];
  try {
    for (let index = 0; index < MAX_SHARES; index++) {
      const text = values[`virtiofs${index}`];
      if (text === undefined) continue;
      const share = readVmProperty("virtiofs", text, `virtiofs${index}`);
      sockets.push(await startOne(host, vmid, index, share, values, signal));
    }
    return sockets;
  } catch (err) {
    await stopFileServers(host, vmid);
    throw err;
  }
}

export async function stopFileServers(host: VirtiofsPorts, vmid: number): Promise<void> {
  for (let index = 0; index < MAX_SHARES; index++) await stopHelper(host, fileServerId(vmid, index));
}

async function startOne(
  host: VirtiofsPorts,
  vmid: number,
  index: number,
  share: VirtioFs,
  values: VmValues,
  signal: AbortSignal,
): Promise<GuestFile> {
  if (host.processes.confinement.level !== "full")
    throw startFailed(
      "directories are shared with guests (virtiofs) by root only: run the agent as root, or remove them",
    );
  const directory = mappedDirectory(host, share.dirid);
  if (!host.files.exists(directory)) throw startFailed(`Path ${directory} does not exist`);
  await host.mappings.requireDirectory(`directory mapping '${share.dirid}'`, directory);
  if (!host.files.exists(PROGRAM))
    throw startFailed("virtiofsd is not installed: apt-get install -y qemu-system-common");
  const id = fileServerId(vmid, index);
  await stopHelper(host, id);
  const path = `${host.processes.placeOf(id).ioFolder}/virtiofs`;
  const options = [
    `source=${directory}`,
    `cache=${CACHE[share.cache ?? "auto"] ?? "auto"}`,
    "sandbox=namespace",
    "announce_submounts",
    share["direct-io"] === true ? "allow_direct_io" : "no_allow_direct_io",
    share["expose-xattr"] === true || share["expose-acl"] === true ? "xattr" : "no_xattr",
    share["expose-acl"] === true ? "posix_acl" : "no_posix_acl",
  ];
  const process = await host.processes.start(
    {
      id,
      label: `file server of VM ${vmid} for '${share.dirid}'`,
      program: PROGRAM,
      args: [
        "-f",
        `--socket-path=${path}`,
        // Its limits are set already.
        "--rlimit-nofile=0",
        ...options.flatMap((option) => ["-o", option]),
      ],
      bounds: fileServerBounds(values),
      asRoot: true,
      files: [
        { path: directory, access: "rw", owned: false },
        { path: FILE_MAX, access: "ro", owned: false },
      ],
      note: { vmid },
    },
    { signal },
  );
  await untilListening(host, process, path);
  return { path, access: "rw", owned: true };
}
