import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { FakeGuest } from "../../../testing/fake-guests.ts";
import { Refused } from "../../../testing/fake-qmp.ts";
import { VmNode } from "../../../testing/vm-world.ts";

const SNAPSHOT = "/nodes/{node}/qemu/{vmid}/snapshot" as const;
const ONE = `${SNAPSHOT}/{snapname}` as const;

let node: VmNode;
let volume: string;
beforeEach(async () => {
  node = await VmNode.open();
  volume = await node.addWithDisk(100, { memory: "16" });
});
afterEach(() => node.close());

const exit = async (...call: Parameters<VmNode["task"]>): Promise<string | undefined> =>
  (await node.task(...call)).exitStatus;
const take = (snapname: string, more = {}) => exit(`POST ${SNAPSHOT}`, { vmid: 100, snapname, ...more });
const inImage = async (): Promise<string[]> =>
  (await node.storages.find("local").plugin.snapshots(volume)).map(({ name }) => name);

describe("snapshots", () => {
  it("are taken, shown, described and deleted", async () => {
    expect(await take("one", { description: "first" })).toBe("OK");
    expect(await take("two")).toBe("OK");
    expect(await take("two")).toBe("snapshot name 'two' already used");
    expect(await inImage()).toEqual(["one", "two"]);
    expect(await node.call(`GET ${SNAPSHOT}`, { vmid: 100 })).toMatchObject([
      { name: "one", description: "first" },
      { name: "two", parent: "one" },
      { name: "current", parent: "two", running: false },
    ]);
    const put = (description?: string) =>
      node.call(`PUT ${ONE}/config`, { vmid: 100, snapname: "two", description });
    await put("second");
    await put();
    expect(await node.call(`GET ${ONE}/config`, { vmid: 100, snapname: "two" })).toMatchObject({
      description: "second",
      parent: "one",
    });
    await put("");
    expect(node.configs.get(100).snapshots["two"]).not.toHaveProperty("description");
    expect(await exit(`DELETE ${ONE}`, { vmid: 100, snapname: "one" })).toBe("OK");
    expect(await exit(`DELETE ${ONE}`, { vmid: 100, snapname: "one" })).toBe("snapshot 'one' does not exist");
    expect(await inImage()).toEqual(["two"]);
    expect(node.values(100)).not.toHaveProperty("lock");
    const refused = (snapname: string, more = {}) =>
      expect(async () => node.call(`POST ${SNAPSHOT}`, { vmid: 100, snapname, ...more })).rejects;
    await refused("current").toThrow("unable to use snapshot name 'current' (reserved name)");
    await refused("PENDING").toThrow("unable to use snapshot name 'pending' (reserved name)");
    await refused("x1", { vmid: 999 }).toThrow("999.conf' does not exist");
    await expect(
      node.call(
        `POST ${ONE}/rollback`,
        { vmid: 100, snapname: "two", start: true },
        { "/vms/100": ["VM.Snapshot.Rollback"] },
      ),
    ).rejects.toThrow("/vms/100, VM.PowerMgmt");
    await node.configs.change(100, (config) => ({
      ...config,
      values: { ...config.values, lock: "backup", "amd-sev": "type=std" },
      snapshots: { old: {} },
    }));
    await expect(put("x")).rejects.toThrow("VM is locked (backup)");
    await refused("x2", { vmstate: true }).toThrow(
      "Cannot live-migrate, snapshot (with RAM), or hibernate a VM with: amd-sev",
    );
    expect(await node.call(`GET ${SNAPSHOT}`, { vmid: 100 })).toMatchObject([
      { name: "old", snaptime: 0, vmstate: false, description: "" },
      { name: "current" },
    ]);
  });

  it("go back and start the VM when asked to", async () => {
    await take("one");
    await node.call("PUT /nodes/{node}/qemu/{vmid}/config", { vmid: 100, cores: 3 }, "root");
    expect(await exit(`POST ${ONE}/rollback`, { vmid: 100, snapname: "one", start: true })).toBe("OK");
    expect(node.values(100)).not.toHaveProperty("cores");
    expect(node.guests.get("100")).toBeDefined();
    const { plugin } = node.storages.find("local");
    await node.guests.get("100")?.stop();
    await plugin.deleteSnapshot(volume, "one");
    expect(await exit(`POST ${ONE}/rollback`, { vmid: 100, snapname: "one" })).toContain(
      "has no snapshot 'one'",
    );
    expect(node.values(100)).not.toHaveProperty("lock");
  });

  it("go back over a cloud-init drive: it is removed, and made anew for a snapshot that has one", async () => {
    await take("bare");
    await node.call("PUT /nodes/{node}/qemu/{vmid}/config", { vmid: 100, ide2: "local:cloudinit" }, "root");
    const discs = () => node.images(100).filter((name) => name.includes("cloudinit"));
    expect(discs()).toHaveLength(1);
    expect(await exit(`POST ${ONE}/rollback`, { vmid: 100, snapname: "bare" })).toBe("OK");
    expect(discs()).toEqual([]);
    expect(node.values(100)).not.toHaveProperty("ide2");
    await node.call("PUT /nodes/{node}/qemu/{vmid}/config", { vmid: 100, ide2: "local:cloudinit" }, "root");
    await take("with");
    expect(await exit(`POST ${ONE}/rollback`, { vmid: 100, snapname: "bare" })).toBe("OK");
    expect(discs()).toHaveLength(1);
    expect(await exit(`POST ${ONE}/rollback`, { vmid: 100, snapname: "with", start: true })).toBe("OK");
    expect(node.guests.get("100")).toBeDefined();
  });

  it("hold a running guest still and let it go on", async () => {
    await node.run(100);
    expect(await take("live")).toBe("OK");
    const guest = node.guests.get("100");
    expect(guest?.qmp.commands.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["stop", "blockdev-snapshot-internal-sync", "cont"]),
    );
    expect(guest?.status).toBe("running");
    expect(await exit(`DELETE ${ONE}`, { vmid: 100, snapname: "live" })).toBe("OK");
    expect(await inImage()).toEqual([]);
  });

  it("freeze the guest's file systems where its agent can, and thaw them again", async () => {
    await node.call("PUT /nodes/{node}/qemu/{vmid}/config", { vmid: 100, agent: "1" }, "root");
    await node.run(100);
    node.agentAnswers = true;
    expect(await take("live")).toBe("OK");
    expect(node.agentCommands).toEqual(["guest-fsfreeze-freeze", "guest-fsfreeze-thaw"]);
  });

  it("hold an emulated guest still while its RAM is saved, and let it go", async () => {
    await node.guests.startQemu({
      id: "100",
      label: "VM 100",
      program: "",
      args: [],
      files: [],
      note: { machine: "pc-i440fx-7.2", cpu: "qemu64", accelerator: "tcg" },
    });
    const guest = node.guests.get("100");
    guest?.qmp.answers.set("migrate", () => {
      expect(guest.status).toBe("paused");
      guest.migration = "pre-switchover";
      return {};
    });
    expect(await take("ram", { vmstate: true })).toBe("OK");
    expect(guest?.status).toBe("running");
  });

  it("keep the RAM and continue from it", async () => {
    await node.run(100);
    expect(await take("ram", { vmstate: true })).toBe("OK");
    // One file takes one connection, also of a guest that came here by several.
    const told = node.guests.qemu("100") as FakeGuest | undefined;
    expect(told?.qmp.commands.find(({ name }) => name === "migrate-set-capabilities")?.args).toEqual({
      capabilities: expect.arrayContaining([{ capability: "multifd", state: false }]) as unknown,
    });
    expect(node.images(100)).toContain("vm-100-state-ram.raw");
    expect(node.configs.get(100).snapshots["ram"]).toMatchObject({
      vmstate: "local:100/vm-100-state-ram.raw",
      runningmachine: "pc-i440fx-7.2",
      runningcpu: "qemu64",
    });
    expect(await exit(`POST ${ONE}/rollback`, { vmid: 100, snapname: "ram" })).toBe("OK");
    expect(node.sent).toEqual([expect.stringMatching(/vm-100-state-ram\.raw$/)]);
    const args = node.guests.starts.at(-1)?.args.join(" ");
    expect(args).toContain("-incoming defer");
    expect(args).toContain("pc-i440fx-7.2");
    expect(node.guests.get("100")?.status).toBe("running");
    expect(await exit(`DELETE ${ONE}`, { vmid: 100, snapname: "ram" })).toBe("OK");
    expect(node.images(100)).toEqual(["vm-100-disk-0.qcow2"]);
  });

  it("give the guest the networks back that it knew when its RAM was saved", async () => {
    const nets = {
      net0: "virtio=BC:24:11:00:00:01,bridge=vmbr0",
      net1: "e1000=BC:24:11:00:00:02,bridge=vmbr0",
    };
    await node.configs.change(100, (config) => ({
      ...config,
      values: { ...config.values, ...nets, net2: "virtio=BC:24:11:00:00:03,bridge=vmbr0" },
    }));
    node.guests.answers.set("qom-get", ({ path }) => {
      if (path === "/machine/peripheral/net0") return 1234;
      throw new Refused(`no ${String(path)}`);
    });
    await node.run(100);
    expect(await take("ram", { vmstate: true })).toBe("OK");
    expect(node.configs.get(100).snapshots["ram"]).toMatchObject({ "running-nets-host-mtu": "net0=1234" });
    expect(await exit(`POST ${ONE}/rollback`, { vmid: 100, snapname: "ram" })).toBe("OK");
    expect(node.guests.starts.at(-1)?.args.join(" ")).toMatch(/id=net0,[^ ]*host_mtu=1234/);
    expect(node.values(100)).not.toHaveProperty("running-nets-host-mtu");
  });

  it("whose deletion failed are deleted by a second try, forced or not", async () => {
    const { plugin } = node.storages.find("local");
    for (const force of [false, true]) {
      await take("one");
      vi.spyOn(plugin, "deleteSnapshot").mockRejectedValueOnce(new Error("disk on fire"));
      expect(await exit(`DELETE ${ONE}`, { vmid: 100, snapname: "one" })).toBe("disk on fire");
      expect(node.configs.get(100).snapshots["one"]).toMatchObject({ snapstate: "delete" });
      expect(node.values(100)).not.toHaveProperty("lock");
      expect(await exit(`POST ${ONE}/rollback`, { vmid: 100, snapname: "one" })).toContain(
        "unable to rollback to incomplete snapshot (snapstate = delete)",
      );
      expect(await exit(`DELETE ${ONE}`, { vmid: 100, snapname: "one", force })).toBe("OK");
      expect(node.configs.get(100).snapshots).toEqual({});
      expect(await inImage()).toEqual([]);
      expect(node.values(100)).not.toHaveProperty("unused0");
    }
  });

  it("that could not be rolled back to can be tried again", async () => {
    await take("one");
    await node.call("PUT /nodes/{node}/qemu/{vmid}/config", { vmid: 100, cores: 3 }, "root");
    const { plugin } = node.storages.find("local");
    vi.spyOn(plugin, "rollback").mockRejectedValueOnce(new Error("disk on fire"));
    expect(await exit(`POST ${ONE}/rollback`, { vmid: 100, snapname: "one" })).toBe("disk on fire");
    expect(node.values(100)).toMatchObject({ cores: "3" });
    expect(node.values(100)).not.toHaveProperty("lock");
    expect(await exit(`POST ${ONE}/rollback`, { vmid: 100, snapname: "one" })).toBe("OK");
    expect(node.values(100)).not.toHaveProperty("cores");
  });

  it("leave a guest paused that its owner had paused", async () => {
    await node.run(100);
    const guest = node.guests.get("100");
    if (guest !== undefined) guest.status = "paused";
    expect(await take("ram", { vmstate: true })).toBe("OK");
    expect(guest?.status).toBe("paused");
    guest?.qmp.answers.set("blockdev-snapshot-internal-sync", () => {
      throw new Refused("No space left on device");
    });
    expect(await take("more", { vmstate: true })).toContain("No space left on device");
    expect(guest?.status).toBe("paused");
  });

  it("that fail leave nothing and a guest that runs", async () => {
    await node.run(100);
    const guest = node.guests.get("100");
    guest?.qmp.answers.set("blockdev-snapshot-internal-sync", () => {
      throw new Refused("No space left on device");
    });
    expect(await take("ram", { vmstate: true })).toContain("No space left on device");
    guest?.qmp.answers.set("migrate", () => {
      guest.migration = "failed";
      return {};
    });
    expect(await take("ram", { vmstate: true })).toContain("moving the RAM failed");
    expect(guest?.status).toBe("running");
    expect(node.images(100)).toEqual(["vm-100-disk-0.qcow2"]);
    expect(node.configs.get(100).snapshots).toEqual({});
    expect(node.values(100)).not.toHaveProperty("lock");
  });

  it("that do not load end the half-started guest", async () => {
    await node.run(100);
    await take("ram", { vmstate: true });
    node.guests.answers.set("migrate-incoming", () => {
      throw new Refused("bad stream");
    });
    expect(await exit(`POST ${ONE}/rollback`, { vmid: 100, snapname: "ram" })).toContain("bad stream");
    expect(node.guests.get("100")).toBeUndefined();
    expect(node.values(100)).not.toHaveProperty("lock");
  });

  it("are refused for raw disks and for paths", async () => {
    await node.addWithDisk(101, {}, "raw");
    await node.add(102, { scsi0: "/dev/sdx" });
    for (const vmid of [101, 102])
      expect(await exit(`POST ${SNAPSHOT}`, { vmid, snapname: "one" })).toBe(
        "snapshot feature is not available",
      );
    expect(node.values(101)).not.toHaveProperty("lock");
  });
});
