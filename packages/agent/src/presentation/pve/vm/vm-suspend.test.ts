import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { without } from "@gpve/domain/guest/guest-config.ts";
import { VmNode } from "../../../testing/vm-world.ts";

const VM = "/nodes/{node}/qemu/{vmid}" as const;

let node: VmNode;
beforeEach(async () => {
  node = await VmNode.open();
  await node.addWithDisk(100, { memory: "16" });
});
afterEach(() => node.close());

const status = async (verb: "start" | "stop" | "suspend" | "resume", more = {}) =>
  (await node.task(`POST ${VM}/status/${verb}`, { vmid: 100, ...more }, "root")).exitStatus;
const toDisk = { todisk: true };
const stateFiles = (): string[] => node.images(100).filter((name) => name.includes("-state-"));

describe("suspending to disk", () => {
  it("keeps the RAM beside the disks and goes on from it at the next start", async () => {
    await node.run(100);
    expect(await status("suspend", toDisk)).toBe("OK");
    expect(node.guests.get("100")).toBeUndefined();
    expect(stateFiles()).toEqual([expect.stringMatching(/^vm-100-state-suspend-\d{4}-\d\d-\d\d\.raw$/)]);
    expect(node.values(100)).toMatchObject({
      lock: "suspended",
      vmstate: `local:100/${stateFiles()[0]}`,
      runningmachine: "pc-i440fx-7.2",
      runningcpu: "qemu64",
    });
    expect(await node.call(`GET ${VM}/status/current`, { vmid: 100 })).toMatchObject({
      status: "stopped",
      qmpstatus: "stopped",
      lock: "suspended",
    });
    // What is changed meanwhile has to wait.
    await node.configs.change(100, (config) => ({ ...config, pending: { cores: "3" } }));
    expect(await status("start")).toBe("OK");
    const args = node.guests.starts.at(-1)?.args.join(" ");
    expect(args).toContain("-incoming defer");
    expect(args).toContain("pc-i440fx-7.2");
    expect(node.sent).toHaveLength(1);
    expect(node.guests.get("100")?.status).toBe("running");
    expect(stateFiles()).toEqual([]);
    expect(node.configs.get(100).pending).toEqual({ cores: "3" });
    for (const key of ["lock", "vmstate", "runningmachine", "runningcpu"])
      expect(node.values(100)).not.toHaveProperty(key);
  });

  it("is undone by resume, and stays when resuming fails", async () => {
    await node.run(100);
    expect(await status("suspend", toDisk)).toBe("OK");
    expect(await status("stop")).toBe("OK");
    node.guests.answers.set("migrate-incoming", () => {
      throw new Error("bad RAM");
    });
    expect(await status("resume")).toBe("bad RAM");
    expect(node.values(100)["lock"]).toBe("suspended");
    expect(node.guests.get("100")).toBeUndefined();
    expect(stateFiles()).toHaveLength(1);
    node.guests.answers.delete("migrate-incoming");
    expect(await status("resume")).toBe("OK");
    expect(stateFiles()).toEqual([]);
  });

  it("that fails leaves the guest as it was", async () => {
    await node.run(100);
    const guest = node.guests.get("100");
    for (const before of ["running", "paused"]) {
      if (guest !== undefined) guest.status = before;
      guest?.qmp.answers.set("migrate-continue", () => {
        guest.status = "postmigrate";
        guest.migration = "failed";
        return {};
      });
      expect(await status("suspend", toDisk)).toContain("moving the RAM failed");
      expect(guest?.status).toBe(before);
      expect(node.values(100)).not.toHaveProperty("lock");
      expect(stateFiles()).toEqual([]);
    }
  });

  it("says that its file took no more, which QEMU does not know", async () => {
    await node.run(100);
    const guest = node.guests.get("100");
    for (const command of ["migrate", "migrate-continue"] as const) {
      const { promise: written, reject } = Promise.withResolvers<void>();
      const usual = guest?.qmp.answers.get(command);
      node.host.ram.receive = async () => ({ uri: "unix:/nowhere", written, close: async () => undefined });
      guest?.qmp.answers.set(command, () => {
        reject(new Error("not enough space"));
        guest.migration = "failed";
        return {};
      });
      expect(await status("suspend", toDisk)).toBe("not enough space");
      expect(guest?.status).toBe("running");
      expect(stateFiles()).toEqual([]);
      if (usual !== undefined) guest?.qmp.answers.set(command, usual);
    }
  });

  it("is refused where it cannot work", async () => {
    const suspend = (rights?: Parameters<VmNode["call"]>[2]) =>
      node.call(`POST ${VM}/status/suspend`, { vmid: 100, ...toDisk, statestorage: "local" }, rights);
    await expect(suspend("root")).rejects.toThrow("VM 100 not running");
    await node.run(100);
    await expect(suspend({ "/vms/100": ["VM.PowerMgmt", "VM.Config.Disk"] })).rejects.toThrow(
      "Datastore.AllocateSpace",
    );
    await node.configs.change(100, (config) => ({ ...config, values: { ...config.values, lock: "backup" } }));
    expect(await status("suspend", toDisk)).toBe("cannot suspend to disk during backup");
    await node.configs.change(100, ({ values, ...config }) => ({
      ...config,
      values: { ...values, lock: "clone", hostpci0: "0000:00:02.0" },
    }));
    await expect(suspend("root")).rejects.toThrow("cannot suspend VM to disk due to passed-through PCI");
    await node.configs.change(100, ({ values, ...config }) => ({
      ...config,
      values: without(values, "hostpci0"),
    }));
    expect(await status("suspend", toDisk)).toBe("VM is locked (clone)");
  });

  it("is destroyed with the VM", async () => {
    await node.run(100);
    await status("suspend", toDisk);
    expect((await node.task(`DELETE ${VM}`, { vmid: 100 }, "root")).exitStatus).toBe("OK");
    expect(node.images(100)).toEqual([]);
  });
});
