// kill -9 at the steps of making, cloning, snapshotting and destroying a VM, on real qemu-img and QEMU.
import { describe, expect, test } from "vitest";
import { crashEverywhere } from "./crash-matrix.ts";
import {
  dropNew,
  GUEST,
  guestRuns,
  hasQemu,
  NEW,
  newIsWholeOrNothing,
  TIMEOUT_MS,
  world,
  worldForTheFile,
} from "./guest-under-test.ts";

worldForTheFile();

describe.skipIf(!hasQemu)("kill -9 at the steps of", { timeout: TIMEOUT_MS }, () => {
  test("create and start", async () => {
    const points = await crashEverywhere(world, {
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
    expect(points).toBeGreaterThan(5);
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
