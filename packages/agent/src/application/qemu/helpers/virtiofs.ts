// Directories of the host in a guest: one virtiofsd for each, in a process of its own. QEMU connects to it and shares
// the guest's memory with it. It acts as whoever owns the files, so it is root, but sees nothing except its directory.
import { AppError } from "@gpve/contracts/errors.ts";
import { fileServerBounds } from "@gpve/domain/vm/running/vm-bounds.ts";
import type { FileFacts } from "@gpve/domain/guest/file-facts.ts";
import type { HostMappings } from "@gpve/domain/vm/host/host-mappings.ts";
import type { GuestFile, GuestProcess, GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import type { VirtioFs } from "@gpve/domain/vm/config/property-types.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import { mappedDirectory } from "../start/take-devices.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface VirtiofsPorts {
  readonly mappings: HostMappings;
  readonly files: FileFacts;
  readonly processes: GuestProcesses;
  readonly clock: Clock;
}

const PROGRAM = "/usr/lib/qemu/virtiofsd";
/** It wants to know it before it looks at its options. */
const FILE_MAX = "/proc/sys/fs/file-max";
const MAX_SHARES = 10;
const SOCKET_PATIENCE_MS = 10_000;
const LOOK_EVERY_MS = 20;
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
  for (let index = 0; index < MAX_SHARES; index++) {
    const process = host.processes.get(fileServerId(vmid, index));
    if (process !== undefined && !process.hasExited) await process.stop();
  }
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
  const old = host.processes.get(id);
  if (old !== undefined && !old.hasExited) await old.stop();
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

async function untilListening(host: VirtiofsPorts, process: GuestProcess, path: string): Promise<void> {
  for (let waited = 0; waited < SOCKET_PATIENCE_MS; waited += LOOK_EVERY_MS) {
    if (host.files.exists(path)) return;
    if (process.hasExited) break;
    await host.clock.sleep(LOOK_EVERY_MS);
  }
  const words = process.hasExited ? (await process.exited).lastWords : "it did not open its socket";
  await process.kill();
  throw startFailed(`failed to start the ${process.label}: ${words.trim()}`);
}

function startFailed(message: string): AppError {
  return new AppError("guest.start_failed", message, { pveStatus: 500 });
}
