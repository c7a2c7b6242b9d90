// kill -9 at the steps of moving, backing up and restoring disks, on real qemu-img and QEMU.
import { describe, expect, test } from "vitest";
import { crashEverywhere } from "./crash-matrix.ts";
import {
  dropDumps,
  dropNew,
  dumps,
  backup,
  GUEST,
  guestRuns,
  hasQemu,
  NEW,
  newIsWholeOrNothing,
  nothingFleeced,
  TIMEOUT_MS,
  world,
  worldForTheFile,
} from "./guest-under-test.ts";

worldForTheFile();

describe.skipIf(!hasQemu)("kill -9 at the steps of", { timeout: TIMEOUT_MS }, () => {
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
    const params = { disk: "scsi1", storage: "local", format: "raw", delete: 1, bwlimit: 2_000 };
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
    await dropDumps();
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
});
