// Guests that open something of the host by its path: memory, huge pages, a random generator, a disk, a port.
import { existsSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { type Api, apiOf, firstNode, type Gpve, loginHeaders, startGpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const QEMU = "/usr/bin/qemu-system-x86_64";
const POOL = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB";
const MOUNT = "/run/hugepages/kvm/2048kB";
const PAGES = 16;

const skipped = (what: string, why: string | undefined): boolean => {
  if (why !== undefined) console.warn(`SKIPPED ${what}: ${why}`);
  return why !== undefined;
};
const noQemu = existsSync(QEMU) ? undefined : `no ${QEMU}: apt-get install qemu-system-x86`;
const mountedBefore = readFileSync("/proc/mounts", "utf8").includes(` ${MOUNT} hugetlbfs `);

describe.skipIf(skipped("guests with resources of the host", noQemu))("a VM reaches", () => {
  let gpve: Gpve;
  let api: Api;
  let node: string;
  const run = async (path: string, params?: Record<string, string | number>) => {
    const answer = await api("POST", path, params);
    expect(answer.status, answer.text).toBe(200);
    return ((await waitTask(api, answer.data as string)) as { exitstatus: string }).exitstatus;
  };
  const started = async (vmid: number, config: Record<string, string | number>) => {
    expect(await run(`/nodes/${node}/qemu`, { vmid, memory: 32, ...config })).toBe("OK");
    return run(`/nodes/${node}/qemu/${vmid}/status/start`);
  };
  const stop = (vmid: number) => run(`/nodes/${node}/qemu/${vmid}/status/stop`);

  beforeAll(async () => {
    gpve = await startGpve();
    // Only root itself may hand out what belongs to the host.
    api = apiOf(gpve.credentials, await loginHeaders(gpve.credentials));
    node = await firstNode(api);
  });
  afterAll(() => gpve.stop());

  test("memory it shares with another VM, until the last has gone", async () => {
    const file = "/dev/shm/pve-shm-gpve-test";
    rmSync(file, { force: true });
    expect(await started(100, { ivshmem: "size=1,name=gpve-test" })).toBe("OK");
    expect(await started(101, { ivshmem: "size=1,name=gpve-test", machine: "q35" })).toBe("OK");
    expect(statSync(file).size).toBe(1024 * 1024);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(await stop(100)).toBe("OK");
    expect(await stop(101)).toBe("OK");
    await expect.poll(() => existsSync(file), { timeout: 150_000 }).toBe(false);
  });

  test.skipIf(skipped("huge pages", hugepagesMissing()))(
    "huge pages, which the host has back after it",
    async () => {
      const surplus = () => Number(readFileSync(`${POOL}/surplus_hugepages`, "utf8"));
      const before = surplus();
      expect(await started(102, { memory: PAGES * 2, numa: 1, hugepages: "2" })).toBe("OK");
      expect(surplus()).toBe(before + PAGES);
      expect(await stop(102)).toBe("OK");
      await expect.poll(surplus, { timeout: 150_000 }).toBe(before);
      await expect.poll(() => existsSync(`${MOUNT}/102`), { timeout: 150_000 }).toBe(false);
      if (!mountedBefore) await exec("umount", [MOUNT]);
    },
  );

  test.skipIf(skipped("hardware random generator", missing("/dev/hwrng")))(
    "the host's random generator",
    async () => {
      const { uid } = statSync("/dev/hwrng");
      expect(await started(103, { rng0: "source=/dev/hwrng" })).toBe("OK");
      expect(await stop(103)).toBe("OK");
      await exec("chown", [String(uid), "/dev/hwrng"]);
    },
  );

  test.skipIf(skipped("disks of the host", missing("/dev/loop-control")))(
    "a disk of the host, which nobody else gets to read",
    async () => {
      const image = join(gpve.data, "loop.raw");
      writeFileSync(image, "");
      truncateSync(image, 4 * 1024 * 1024);
      const disk = (await exec("losetup", ["--find", "--show", image])).stdout.trim();
      const { uid, mode } = statSync(disk);
      try {
        expect(await started(106, { scsi0: disk })).toBe("OK");
        expect(await stop(106)).toBe("OK");
        expect(await started(107, { virtio0: `${disk},ro=1` })).toBe("OK");
        expect(await stop(107)).toBe("OK");
        expect(await started(108, {})).toBe("OK");
        expect(await run(`/nodes/${node}/qemu/108/config`, { scsi1: disk })).toBe("OK");
        const { data } = await api("GET", `/nodes/${node}/qemu/108/pending`);
        expect(data).toContainEqual({ key: "scsi1", value: disk });
        expect(await stop(108)).toBe("OK");
        expect(statSync(disk).mode).toBe(mode);
      } finally {
        await exec("chown", [String(uid), disk]);
        await exec("losetup", ["--detach", disk]);
      }
    },
  );

  test("no port that is not there", async () => {
    expect(await started(104, { serial0: "/dev/gpve-no-such-port" })).toBe("no such serial device");
    expect(await started(105, { parallel0: "/dev/parport99" })).toBe("no such parallel device");
  });
});

function missing(path: string): string | undefined {
  return existsSync(path) ? undefined : `no ${path} on this machine`;
}

/** Whether this machine lets us have some: a container may not. */
function hugepagesMissing(): string | undefined {
  const file = `${POOL}/nr_hugepages`;
  if (!existsSync(file)) return `no ${file} on this machine`;
  const before = readFileSync(file, "utf8").trim();
  try {
    writeFileSync(file, String(Number(before) + PAGES));
    const free = Number(readFileSync(`${POOL}/free_hugepages`, "utf8"));
    writeFileSync(file, before);
    return free >= PAGES ? undefined : "not enough memory in one piece";
  } catch (err) {
    return `cannot set ${file}: ${err instanceof Error ? err.message : String(err)}`;
  }
}
