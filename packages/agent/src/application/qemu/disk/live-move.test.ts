// Moving a disk of a running VM, and what is done to the disk afterwards: its topmost node has another name by then.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { StepContext } from "@gpve/kit/operation/definition.ts";
import { testSaga } from "@gpve/kit/testing/saga-harness.ts";
import { nodeName } from "@gpve/domain/vm/argv/block/block-node.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import type { FakeGuest } from "../../../testing/fake-guests.ts";
import { Refused } from "../../../testing/fake-qmp.ts";
import { FakeMirror } from "../../../testing/fake-mirror.ts";
import { VmNode, VmWorld } from "../../../testing/vm-world.ts";
import { registerVmOperations } from "../vm-operations.ts";
import { moveDiskOperation, type DiskMoveArgs } from "./move-disk.ts";
import { presentTop } from "./top-node.ts";

const VM = "/nodes/{node}/qemu/{vmid}" as const;
const OLD = "local:100/vm-100-disk-0.qcow2";
const NEW = "other:100/vm-100-disk-0.qcow2";

async function runMirroring(world: VmWorld, more: VmValues = {}): Promise<FakeMirror> {
  await world.addWithDisk(100, { scsihw: "virtio-scsi-single", ...more });
  await world.run(100);
  return new FakeMirror(guestOf(world).qmp);
}

function guestOf(world: VmWorld): FakeGuest {
  const guest = world.guests.get("100");
  if (guest === undefined) throw new Error("the guest has ended");
  return guest as FakeGuest;
}

let node: VmNode;
beforeEach(async () => {
  node = await VmNode.open();
  node.define("other", { content: "images" });
});
afterEach(() => node.close());

const exit = async (...call: Parameters<VmNode["task"]>): Promise<string | undefined> =>
  (await node.task(...call)).exitStatus;
const move = (params: object = {}) =>
  exit(`POST ${VM}/move_disk`, { vmid: 100, disk: "scsi0", storage: "other", delete: true, ...params });

describe("moving a disk of a running VM", () => {
  it("puts a copy with its own throttle filter in its place, as the configuration wants it", async () => {
    const mirror = await runMirroring(node);
    const text = `${OLD},iothread=1,mbps_wr=5,ro=1,size=1M`;
    await node.configs.change(100, (config) => ({ ...config, values: { ...config.values, scsi0: text } }));
    expect(await move()).toBe("OK");
    expect(node.values(100)["scsi0"]).toBe(text.replace(OLD, NEW));
    expect(node.images(100)).toEqual([]);
    expect(mirror.jobs.size + mirror.groups.size).toBe(0);
    const [top = ""] = mirror.tops;
    expect(mirror.tops).toHaveLength(1);
    expect(top).toMatch(/^drive-scsi0-[\da-f]{12}$/);
    // While it is filled it is written to by QEMU, without limits, and what is empty stays so.
    expect(mirror.added[0]).toMatchObject({
      driver: "throttle",
      "throttle-group": "throttle-copy-scsi0",
      "read-only": false,
      discard: "unmap",
      "detect-zeroes": "unmap",
      file: { driver: "qcow2", discard: "unmap", file: { driver: "file", discard: "unmap" } },
    });
    expect(mirror.reopened).toEqual([
      expect.objectContaining({
        "node-name": top,
        "throttle-group": "throttle-drive-scsi0",
        "read-only": true,
        discard: "ignore",
        file: (mirror.added[0]?.["file"] as Record<string, unknown> | undefined)?.["node-name"],
      }),
    ]);
    expect(guestOf(node).files).toEqual([expect.stringContaining("/other/images/100/vm-100-disk-0.qcow2")]);
  });

  it("moves it again, and knows where it is for everything else", async () => {
    const mirror = await runMirroring(node);
    expect(await move()).toBe("OK");
    const [first = ""] = mirror.tops;
    expect(await move({ storage: "local", format: "raw", bwlimit: 4096, delete: false })).toBe("OK");
    const speeds = guestOf(node)
      .qmp.commands.filter(({ name }) => name === "blockdev-mirror")
      .map(({ args }) => args["speed"]);
    expect(speeds).toEqual([undefined, 4096 * 1024]);
    // Kept, but out of the guest's reach.
    expect(node.values(100)["unused0"]).toBe(NEW);
    expect(guestOf(node).files).toEqual([expect.stringContaining("/local/images/100/")]);
    expect(mirror.tops).toEqual([expect.stringMatching(/^drive-scsi0-/)]);
    const [top = ""] = mirror.tops;
    expect(top).not.toBe(first);
    const sizes: unknown[] = [];
    mirror.on("block_resize", (args) => void sizes.push(args["node-name"]));
    expect(await exit(`PUT ${VM}/resize`, { vmid: 100, disk: "scsi0", size: "+1M" })).toBe("OK");
    expect(sizes).toEqual([top]);
    mirror.isHidden = true;
    expect(await presentTop(guestOf(node), "scsi0")).toBe(top);
    mirror.tops.length = 0;
    expect(await presentTop(guestOf(node), "scsi0")).toBe("drive-scsi0");
  });

  it("leaves everything as it was when the mirror fails", async () => {
    const mirror = await runMirroring(node);
    mirror.on("job-complete", () => {
      throw new Refused("cannot complete");
    });
    expect(await move()).toContain("cannot complete");
    expect(node.values(100)["scsi0"]).toBe(`${OLD},size=1M`);
    expect(node.images(100, "other")).toEqual([]);
    expect(node.images(100)).toHaveLength(1);
    expect(mirror.tops).toEqual(["drive-scsi0"]);
    expect(mirror.jobs.size + mirror.groups.size).toBe(0);
    expect(guestOf(node).files).toEqual([]);
  });

  it.each(["blockdev-reopen", "blockdev-del", "job-dismiss"])(
    "keeps what the guest already uses when %s fails after that",
    async (command) => {
      const mirror = await runMirroring(node);
      const answer = guestOf(node).qmp.answers.get(command);
      let asked = 0;
      guestOf(node).qmp.answers.set(command, (args) => {
        if (asked++ === 0) throw new Refused("no answer");
        return answer?.(args);
      });
      expect(await move()).toContain("no answer");
      // The old volume is not lost sight of.
      expect(node.values(100)).toMatchObject({ scsi0: `${NEW},size=1M`, unused0: OLD });
      expect(node.images(100, "other")).toHaveLength(1);
      expect(mirror.tops).toEqual([expect.stringMatching(/^drive-scsi0-/)]);
      expect(mirror.jobs.size + mirror.groups.size).toBe(0);
    },
  );

  it("gives up what it cannot make sure of when QEMU does not answer at all", async () => {
    await runMirroring(node);
    guestOf(node).qmp.answers.set("object-del", () => {
      throw new Error("QEMU closed the connection");
    });
    expect(await move()).toContain("QEMU closed the connection");
    expect(node.values(100)).toMatchObject({ scsi0: `${NEW},size=1M`, unused0: OLD });
  });
});

describe("a move that was cut off", () => {
  const args: DiskMoveArgs = { vmid: 100, disk: "scsi0", storage: "other", remove: true };
  /** As the operation engine calls the first step again. */
  async function again(state: object, verb: "run" | "undo" = "run", disk = "scsi0"): Promise<void> {
    const [copy] = moveDiskOperation(node.host).plan?.(args) ?? [];
    const context = {
      args: { ...args, disk },
      state,
      signal: new AbortController().signal,
      log: () => undefined,
      progress: () => undefined,
      checkpoint: async () => undefined,
    };
    await copy?.[verb]?.(context as unknown as StepContext<DiskMoveArgs, Record<string, unknown>>);
  }

  it.each([true, false])("of a cloud-init drive goes by the disc in it (the new one: %s)", async (isNew) => {
    const source = "local:100/vm-100-cloudinit.qcow2";
    const { plugin } = node.storages.find("other");
    await plugin.activate();
    const volname = await plugin.alloc({
      vmid: 100,
      format: "qcow2",
      size: 4 * 1024 * 1024,
      name: "vm-100-cloudinit.qcow2",
    });
    const target = `other:${volname}`;
    await node.addWithDisk(100, { ide2: `${source},media=cdrom` });
    await node.run(100);
    const { qmp, files } = guestOf(node);
    files.push(plugin.path(volname));
    const inDrive = nodeName("f", "ide2", isNew ? target : source, node.host.ids.sha256Hex);
    qmp.answers.set("query-named-block-nodes", () => [{ "node-name": inDrive }]);
    const state = { source, existing: [], target };
    if (isNew) await again(state, "run", "ide2");
    await again(state, "undo", "ide2");
    expect(node.values(100)["ide2"]).toBe(`${isNew ? target : source},media=cdrom`);
    expect(node.images(100, "other")).toHaveLength(isNew ? 1 : 0);
    expect(files).toHaveLength(isNew ? 1 : 0);
    expect(node.values(100)).not.toHaveProperty("unused0");
  });

  it.each(["ready", "concluded"])("is brought to its end when the job is %s", async (status) => {
    const mirror = await runMirroring(node);
    const { plugin } = node.storages.find("other");
    await plugin.activate();
    const volname = await plugin.alloc({ vmid: 100, format: "qcow2", size: 1024 * 1024 });
    const state = { source: OLD, existing: [], target: `other:${volname}` };
    mirror.on("job-complete", () => {
      throw new Refused("cannot complete");
    });
    await move();
    mirror.target = String(mirror.added[0]?.["node-name"]);
    mirror.tops.push(mirror.target);
    mirror.groups.add("throttle-copy-scsi0");
    mirror.on("job-complete", ({ id }) => mirror.complete(String(id)));
    mirror.jobs.set("move-100-scsi0", status);
    if (status === "concluded") mirror.complete("move-100-scsi0");
    await again(state);
    expect(mirror.tops).toEqual([mirror.target]);
    expect(mirror.jobs.size + mirror.groups.size).toBe(0);
    // There is nothing left to do for one that ended just before.
    const asked = guestOf(node).qmp.commands.length;
    await again(state);
    expect(
      guestOf(node)
        .qmp.commands.slice(asked)
        .map(({ name }) => name),
    ).toEqual(["query-jobs", "query-block"]);
  });

  it("anywhere leaves one disk, and the configuration names it", () =>
    testSaga<VmWorld & { mirror?: FakeMirror }>({
      prepare: async () => {
        const world: VmWorld & { mirror?: FakeMirror } = await VmWorld.open();
        world.define("other", { content: "images" });
        world.mirror = await runMirroring(world);
        return world;
      },
      define: (engine, world) => {
        registerVmOperations(engine, world.host);
        return { type: "qmmove", args, resources: ["vm/100"] };
      },
      check: (world) => {
        const isMoved = world.mirror?.tops[0] !== "drive-scsi0";
        expect(world.mirror?.tops).toHaveLength(1);
        expect(world.values(100)["scsi0"]).toBe(`${isMoved ? NEW : OLD},size=1M`);
        expect(world.images(100, "other")).toHaveLength(isMoved ? 1 : 0);
        const isUnused = world.values(100)["unused0"] === OLD;
        expect(world.images(100)).toHaveLength(isMoved && !isUnused ? 0 : 1);
      },
      cleanup: (world) => world.remove(),
    }));
});
