// A Debian guest that the product boots, with an archive of ours unpacked in it: for what the kernel of a test host need not
// know.
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { defaultImageCache } from "../build-caches.ts";
import { type Api, apiOf, firstNode, startGpve } from "../gpve.ts";
import { runByAgent, untilAgentAnswers } from "../guest.ts";
import { waitTask } from "../tasks.ts";
import { makeGuestArchive, type GuestArchive } from "./guest-archive.ts";

const MINUTES = 60_000;
/** Linux gives the short names in the order in which it finds disks, which is any. */
const DISK = "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi";
const UNPACK = [
  "set -e",
  `tar -xf ${DISK}1 -C / --keep-directory-symlink --skip-old-files`,
  "ldconfig",
  "udevadm control --reload",
];

/** An empty disk of a gigabyte. */
export const SPARE_DISK = `${DISK}2`;

export const missingForDebian: readonly string[] = [
  ...(process.getuid?.() === 0 ? [] : ["root"]),
  ...(existsSync("/usr/bin/qemu-system-x86_64") ? [] : ["qemu-system-x86"]),
  ...(existsSync("/usr/bin/qemu-img") ? [] : ["qemu-utils"]),
];

export interface DebianGuest {
  readonly api: Api;
  readonly path: string;
  /** Lines of a shell, as root; what they printed. */
  run(lines: readonly string[]): Promise<string>;
  stop(): Promise<void>;
}

/** `folder` is a temporary one, which goes when the guest is stopped. */
export async function startDebianGuest(
  folder: string,
  archive: GuestArchive,
  memoryMiB = 768,
): Promise<DebianGuest> {
  const made = makeGuestArchive(folder, archive);
  const gpve = await startGpve({ env: { GPVE_IMAGE_CACHE: defaultImageCache(process.env) } });
  const stop = async (): Promise<void> => {
    await gpve.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const api = apiOf(gpve.credentials);
    const run = async (path: string, params: Readonly<Record<string, string | number>> = {}) => {
      const answer = await api("POST", path, params);
      expect(answer.status, answer.text).toBe(200);
      expect((await waitTask(api, answer.data as string, 20 * MINUTES)).exitstatus).toBe("OK");
    };
    const node = await firstNode(api);
    const { path: local } = (await api("GET", "/storage/local")).data as { path: string };
    mkdirSync(join(local, "import"), { recursive: true });
    await rename(await made, join(local, "import/guest.raw"));
    const v1 = apiOf(gpve.credentials, undefined, "/api/v1");
    const built = await v1("POST", `/nodes/${node}/images/debian/build`);
    expect(built.status, built.text).toBe(202);
    const { task } = built.json as unknown as { task: string };
    expect(await waitTask(api, task, 25 * MINUTES)).toMatchObject({ exitstatus: "OK" });
    const path = `/nodes/${node}/qemu/100`;
    await run(`/nodes/${node}/qemu`, {
      vmid: 100,
      memory: memoryMiB,
      cores: 2,
      agent: 1,
      serial0: "socket",
      scsihw: "virtio-scsi-pci",
      scsi0: "local:0,import-from=local:import/debian.qcow2,format=qcow2",
      scsi1: "local:0,import-from=local:import/guest.raw",
      scsi2: "local:1",
      ide2: "local:cloudinit",
      ciupgrade: 0,
      boot: "order=scsi0",
    });
    await run(`${path}/status/start`);
    await untilAgentAnswers(api, path);
    return {
      api,
      path,
      run: (lines) => runByAgent(api, path, "/bin/sh", "-c", [...UNPACK, ...lines].join("\n")),
      stop,
    };
  } catch (err) {
    await stop();
    throw err;
  }
}
