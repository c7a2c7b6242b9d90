// A storage that is no directory: thin logical volumes, in a Debian guest that the product boots, because the kernel of a
// test host need not know them. The suite that every storage plugin passes runs there.
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { rename } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultImageCache } from "@gpve/agent/infrastructure/images/image-cache.ts";
import { apiOf, startGpve, type Api, type Gpve } from "../support/gpve.ts";
import { runByAgent, untilAgentAnswers } from "../support/guest.ts";
import { inGuest, makeGuestArchive } from "../support/in-guest/guest-archive.ts";
import { waitTask } from "../support/tasks.ts";

const missing = [
  ...(process.getuid?.() === 0 ? [] : ["root"]),
  ...(existsSync("/usr/bin/qemu-system-x86_64") ? [] : ["qemu-system-x86"]),
  ...(existsSync("/usr/bin/qemu-img") ? [] : ["qemu-utils"]),
];
if (missing.length > 0)
  console.warn(
    `SKIPPED thin logical volumes: needs ${missing.join(", ")}; get packages with apt-get install`,
  );

const MINUTES = 60_000;
const LVM = [
  "lvm2",
  "liblvm2cmd2.03",
  "dmsetup",
  "dmeventd",
  "libdevmapper1.02.1",
  "libdevmapper-event1.02.1",
  "libaio1",
  "thin-provisioning-tools",
];
/** Linux gives the short names in the order in which it finds disks, which is any. */
const DISK = "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi";
const SUITE = [
  "set -e",
  `tar -xf ${DISK}1 -C / --keep-directory-symlink --skip-old-files`,
  "ldconfig",
  "udevadm control --reload",
  "modprobe dm_thin_pool",
  // A daemon that watches pools is not what is tested, and slow to start under emulation.
  "echo 'activation { monitoring = 0 }' > /etc/lvm/lvmlocal.conf",
  `${inGuest.node} ${inGuest.suite} ${DISK}2 ${inGuest.supervisor} 2>&1 || echo "ended with $?"`,
].join("\n");

describe.skipIf(missing.length > 0)(
  "thin logical volumes in a Debian guest",
  { timeout: 30 * MINUTES },
  () => {
    let gpve: Gpve;
    let api: Api;
    let node: string;
    const folder = mkdtempSync(join(tmpdir(), "gpve-lvmthin-"));
    const vm = (): string => `/nodes/${node}/qemu/100`;
    const run = async (
      path: string,
      params: Readonly<Record<string, string | number>> = {},
    ): Promise<void> => {
      const answer = await api("POST", path, params);
      expect(answer.status, answer.text).toBe(200);
      expect((await waitTask(api, answer.data as string, 20 * MINUTES)).exitstatus).toBe("OK");
    };

    beforeAll(async () => {
      const archive = makeGuestArchive(folder, {
        entry: join(import.meta.dirname, "../support/in-guest/lvmthin-suite.ts"),
        packages: LVM,
        programs: ["/usr/bin/qemu-img"],
      });
      gpve = await startGpve({ env: { GPVE_IMAGE_CACHE: defaultImageCache(process.env) } });
      api = apiOf(gpve.credentials);
      node = ((await api("GET", "/nodes")).data as { node: string }[])[0]?.node ?? "";
      const { path } = (await api("GET", "/storage/local")).data as { path: string };
      mkdirSync(join(path, "import"), { recursive: true });
      await rename(await archive, join(path, "import/guest.raw"));
      const v1 = apiOf(gpve.credentials, undefined, "/api/v1");
      const built = await v1("POST", `/nodes/${node}/images/debian/build`);
      expect(built.status, built.text).toBe(202);
      const { task } = built.json as unknown as { task: string };
      expect(await waitTask(api, task, 25 * MINUTES)).toMatchObject({ exitstatus: "OK" });
      await run(`/nodes/${node}/qemu`, {
        vmid: 100,
        memory: 768,
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
      await run(`${vm()}/status/start`);
      await untilAgentAnswers(api, vm());
    }, 30 * MINUTES);

    afterAll(async () => {
      await gpve.stop();
      rmSync(folder, { recursive: true, force: true });
    }, 5 * MINUTES);

    test("pass the suite of storage plugins, with confined image tools", async () => {
      const said = await runByAgent(api, vm(), "/bin/sh", "-c", SUITE);
      console.log(said);
      expect(said).toMatch(/^. pass \d\d$/m);
      expect(said).toMatch(/^. fail 0$/m);
      expect(said).not.toContain("ended with");
    });
  },
);
