// kill -9 at every step of what happens to a VM, on real qemu-img and QEMU.
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { counterSector } from "@gpve/agent/testing/boot-sector.ts";
import { CrashWorld } from "../../support/crash-world.ts";
import { crashEverywhere } from "./crash-matrix.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");
const TIMEOUT_MS = 600_000;

/** The guest that everything happens to. It runs all the time and must not notice. */
const GUEST = 100;
const NEW = 200;
let world: CrashWorld;
let content: string;
let pid: number;

beforeEach(async () => {
  if (!hasQemu) return;
  world = new CrashWorld();
  await world.start();
  mkdirSync(join(world.data, "storage/local/import"), { recursive: true });
  writeFileSync(join(world.data, "storage/local/import/counter.raw"), counterSector());
  writeFileSync(join(world.data, "storage/local/import/noise.raw"), randomBytes(16 * 1024 * 1024));
  await world.ok("POST", `/nodes/${world.node}/qemu`, {
    vmid: GUEST,
    memory: 16,
    scsihw: "virtio-scsi-single",
    scsi0: "local:0,import-from=local:import/counter.raw,format=qcow2,iothread=1",
    scsi1: "local:0,import-from=local:import/noise.raw,format=qcow2,iothread=1",
    start: 1,
  });
  content = await world.contentOf(GUEST, "scsi0");
  ({ pid } = await world.status(GUEST));
});
afterEach(() => world?.stop());

const guestRuns = async (): Promise<void> => {
  expect(await world.status(GUEST)).toMatchObject({ qmpstatus: "running", pid });
  expect(await world.contentOf(GUEST, "scsi0")).toBe(content);
};
const newIsWholeOrNothing = async (): Promise<void> => {
  await guestRuns();
  const images = world.images().filter((name) => name.startsWith(`${NEW}/`));
  expect(images).toHaveLength((await world.has(NEW)) ? 2 : 0);
  if (images.length > 0) expect(await world.contentOf(NEW, "scsi0")).toBe(content);
};
const dropNew = async (): Promise<void> => {
  if (!(await world.has(NEW))) return;
  if ((await world.status(NEW)).qmpstatus !== "stopped")
    await world.ok("POST", `${world.vm(NEW)}/status/stop`);
  await world.ok("DELETE", world.vm(NEW));
};
const dumps = (): string[] => {
  const folder = join(world.data, "storage/local/dump");
  return existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".vma.zst")) : [];
};
const dropDumps = async (): Promise<void> => {
  for (const name of dumps())
    await world.ok("DELETE", `/nodes/${world.node}/storage/local/content/local:backup/${name}`);
};
const backup = (): [string, string, Record<string, string | number>] => [
  "POST",
  `/nodes/${world.node}/vzdump`,
  { vmid: GUEST, storage: "local", mode: "snapshot", compress: "zstd", fleecing: "1,storage=local" },
];
const nothingFleeced = async (): Promise<void> => {
  await guestRuns();
  expect(world.images().filter((name) => name.includes("-fleece-"))).toEqual([]);
};

describe.skipIf(!hasQemu)("kill -9 at every step of", { timeout: TIMEOUT_MS }, () => {
  test("create and start", async () => {
    const runs = await crashEverywhere(world, {
      type: "qmcreate",
      request: () => [
        "POST",
        `/nodes/${world.node}/qemu`,
        {
          vmid: NEW,
          memory: 16,
          scsi0: "local:0,import-from=local:import/counter.raw,format=qcow2",
          scsi1: "local:0.1",
          start: 1,
        },
      ],
      check: newIsWholeOrNothing,
      clean: dropNew,
    });
    expect(runs).toBeGreaterThan(10);
  });

  test("new disks for a running VM", async () => {
    const namedImages = async (): Promise<[string[], string[]]> => {
      const config = (await world.api("GET", `${world.vm(GUEST)}/config`, { current: 0 })).data as object;
      const keys = Object.keys(config).filter((key) => /^(?:scsi|unused)\d+$/.test(key));
      return [keys, world.images().filter((name) => name.startsWith(`${GUEST}/`))];
    };
    await crashEverywhere(world, {
      type: "qmconfig",
      request: () => [
        "POST",
        `${world.vm(GUEST)}/config`,
        { scsi2: "local:0,import-from=local:import/noise.raw,format=qcow2", scsi3: "local:0.1" },
      ],
      check: async () => {
        await guestRuns();
        const [keys, images] = await namedImages();
        expect(images, keys.join()).toHaveLength(keys.length);
      },
      clean: async () => {
        for (const idlist of ["scsi2,scsi3", "unused0,unused1"])
          await world.api("PUT", `${world.vm(GUEST)}/unlink`, { idlist, force: 1 });
        expect((await namedImages())[1]).toHaveLength(2);
      },
    });
  });

  test("clone of a running VM", async () => {
    await crashEverywhere(world, {
      type: "qmclone",
      request: () => ["POST", `${world.vm(GUEST)}/clone`, { newid: NEW, full: 1 }],
      check: newIsWholeOrNothing,
      clean: dropNew,
    });
  });

  test("snapshot with RAM", async () => {
    const names = async (): Promise<string[]> =>
      ((await world.api("GET", `${world.vm(GUEST)}/snapshot`)).data as { name: string }[])
        .map(({ name }) => name)
        .filter((name) => name !== "current");
    await crashEverywhere(world, {
      type: "qmsnapshot",
      request: () => ["POST", `${world.vm(GUEST)}/snapshot`, { snapname: "snap", vmstate: 1 }],
      check: async () => {
        await guestRuns();
        const isThere = (await names()).includes("snap");
        expect(world.images().filter((name) => name.includes("state-snap"))).toHaveLength(isThere ? 1 : 0);
      },
      clean: async () => {
        if ((await names()).includes("snap")) await world.ok("DELETE", `${world.vm(GUEST)}/snapshot/snap`);
      },
    });
  });

  test("move of a disk that is in use", async () => {
    let format = "qcow2";
    await crashEverywhere(world, {
      type: "qmmove",
      prepare: async () => {
        const config = (await world.api("GET", `${world.vm(GUEST)}/config`)).data as Record<string, string>;
        format = config["scsi0"]?.includes(".raw") === true ? "qcow2" : "raw";
      },
      request: () => [
        "POST",
        `${world.vm(GUEST)}/move_disk`,
        { disk: "scsi0", storage: "local", format, delete: 1 },
      ],
      check: async () => {
        await guestRuns();
      },
      clean: async () => {
        const config = (await world.api("GET", `${world.vm(GUEST)}/config`)).data as Record<string, string>;
        for (const key of Object.keys(config).filter((each) => each.startsWith("unused")))
          await world.api("PUT", `${world.vm(GUEST)}/unlink`, { idlist: key, force: 1 });
      },
    });
  });

  test("move, while the guest's own QEMU mirrors its disk", async () => {
    const noise = await world.contentOf(GUEST, "scsi1");
    // Slow enough to be in the middle of it whenever the kill comes.
    const params = { disk: "scsi1", storage: "local", format: "raw", delete: 1, bwlimit: 1_000 };
    await world.killedAfter(4_000, "POST", `${world.vm(GUEST)}/move_disk`, params);
    await world.expectSound();
    await guestRuns();
    const config = (await world.api("GET", `${world.vm(GUEST)}/config`)).data as Record<string, string>;
    expect(config["scsi1"]).toContain(".raw,");
    expect(await world.contentOf(GUEST, "scsi1")).toBe(noise);
    await world.ok("POST", `${world.vm(GUEST)}/move_disk`, { ...params, format: "qcow2", bwlimit: 0 });
    expect(await world.contentOf(GUEST, "scsi1")).toBe(noise);
    await guestRuns();
  });

  test("backup of a running VM", async () => {
    await crashEverywhere(world, {
      type: "vzdump",
      request: backup,
      check: nothingFleeced,
      clean: dropDumps,
    });
  });

  test("backup, while the guest's own QEMU serves its disks", async () => {
    const [method, path, params] = backup();
    // Slow enough to be in the middle of the second disk whenever the kill comes.
    await world.killedAfter(4_000, method, path, { ...params, bwlimit: 1_000 });
    await world.expectSound();
    await nothingFleeced();
    expect(dumps()).toEqual([]);
    await world.ok(...backup());
    await nothingFleeced();
  });

  test("restore", async () => {
    await world.ok(...backup());
    const [archive = ""] = dumps();
    await crashEverywhere(world, {
      type: "qmrestore",
      request: () => [
        "POST",
        `/nodes/${world.node}/qemu`,
        { vmid: NEW, archive: `local:backup/${archive}`, unique: 1 },
      ],
      check: newIsWholeOrNothing,
      clean: dropNew,
    });
    await dropDumps();
  });

  test("destroy", async () => {
    await crashEverywhere(world, {
      type: "qmdestroy",
      prepare: () =>
        world.ok("POST", `/nodes/${world.node}/qemu`, {
          vmid: NEW,
          scsi0: "local:0.1",
          scsi1: "local:0.1,format=qcow2",
        }),
      request: () => ["DELETE", world.vm(NEW), { purge: 1 }],
      check: guestRuns,
      clean: dropNew,
    });
  });
});
