import { AppError } from "@gpve/contracts/errors.ts";
import { goneGuestCollection } from "@gpve/domain/guest/guest-record.ts";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { VmNode } from "../../../testing/vm-world.ts";

const QEMU = "/nodes/{node}/qemu" as const;
const VM = "/nodes/{node}/qemu/{vmid}" as const;

let node: VmNode;
beforeEach(async () => {
  node = await VmNode.open();
});
afterEach(() => node.close());

const exit = async (...call: Parameters<VmNode["task"]>): Promise<string | undefined> =>
  (await node.task(...call)).exitStatus;

describe("creating a VM", () => {
  it("needs not know yet what runs guests: only a start waits for that", async () => {
    const tried = Promise.withResolvers<void>();
    node.mayStart = tried.promise;
    expect(await exit(`POST ${QEMU}`, { vmid: 100 }, "root")).toBe("OK");
    const started = exit(`POST ${VM}/status/start`, { vmid: 100 }, "root");
    expect(node.guests.get("100")).toBeUndefined();
    tried.resolve();
    expect(await started).toBe("OK");
  });

  it("makes its disks, fills in an identity and starts it when asked to", async () => {
    const params = {
      vmid: 100,
      name: "web",
      scsi0: "local:0.01,format=qcow2",
      efidisk0: "local:1,efitype=4m",
      ide2: "none,media=cdrom",
      net0: "virtio,bridge=vmbr0",
      start: true,
    };
    expect(await exit(`POST ${QEMU}`, params, "root")).toBe("OK");
    expect(node.values(100)).toMatchObject({
      name: "web",
      // Numbered in the order of their names, as on PVE.
      efidisk0: "local:100/vm-100-disk-0.raw,efitype=4m,size=528K",
      scsi0: "local:100/vm-100-disk-1.qcow2,size=10486K",
      net0: expect.stringMatching(/^virtio=BC:24:11:/),
      boot: "order=scsi0;ide2;net0",
      smbios1: expect.stringMatching(/^uuid=/),
    });
    expect(node.guests.get("100")).toBeDefined();
    await expect(node.call(`POST ${QEMU}`, { vmid: 100 }, "root")).rejects.toThrow(
      "unable to create VM 100 - VM 100 already exists on node 'n1'",
    );
  });

  it("imports disks from files and volumes, and takes what is there", async () => {
    const iso = node.put("template/iso/a.img", Buffer.alloc(2048));
    const volume = await node.addWithDisk(200);
    expect(
      await exit(
        `POST ${QEMU}`,
        {
          vmid: 100,
          scsi0: `local:0,import-from=${iso},format=qcow2`,
          scsi1: `local:0,import-from=local:${volume}`,
          ide2: "local:iso/a.img,media=cdrom",
        },
        "root",
      ),
    ).toBe("OK");
    expect(node.values(100)).toMatchObject({
      scsi0: "local:100/vm-100-disk-0.qcow2,size=2K",
      scsi1: "local:100/vm-100-disk-1.qcow2,size=1M",
      ide2: "local:iso/a.img,media=cdrom,size=2K",
    });
  });

  it("keeps a VM that was made but does not start, and warns", async () => {
    node.guests.failure = new Error("no luck");
    const made = await node.task(`POST ${QEMU}`, { vmid: 100, scsi0: "local:0.01", start: true }, "root");
    expect(made.exitStatus).toBe("WARNINGS: 1");
    expect(node.configs.has(100)).toBe(true);
    expect(node.images(100)).toHaveLength(1);
    expect(node.guests.get("100")).toBeUndefined();
  });

  it("is refused in a pool that is not there, before anything is made", async () => {
    await expect(
      node.call(`POST ${QEMU}`, { vmid: 100, scsi0: "local:1", pool: "x" }, "root"),
    ).rejects.toThrow("pool 'x' does not exist");
    expect(node.images(100)).toEqual([]);
    await node.addWithDisk(200);
    await expect(node.call(`POST ${VM}/clone`, { vmid: 200, newid: 201, pool: "x" }, "root")).rejects.toThrow(
      "pool 'x' does not exist",
    );
    await node.records.transact((tx) => tx.put(poolsDef, "x", { poolid: "x", vms: [], storage: [] }));
    expect(() => node.configs.requirePool("x")).not.toThrow();
  });

  it("leaves nothing when a disk cannot be made", async () => {
    const scsi1 = "local:100/vm-100-disk-7.raw";
    const failed = await exit(`POST ${QEMU}`, { vmid: 100, scsi0: "local:0.01", scsi1 }, "root");
    expect(failed).toBe(`unable to create VM 100 - volume '${scsi1}' does not exist`);
    expect(node.images(100)).toEqual([]);
    expect(node.configs.has(100)).toBe(false);
    await expect(node.call(`POST ${QEMU}`, { vmid: 100, scsi0: "5" }, "root")).rejects.toMatchObject({
      errors: { scsi0: "unable to parse drive options" },
    });
  });

  it("is refused at once on storages that are not there or take no disks", async () => {
    node.define("plain", { content: "iso" });
    const refused = (params: object) => node.call(`POST ${QEMU}`, { vmid: 100, ...params }, "root");
    await expect(refused({ scsi0: "none:1" })).rejects.toThrow("storage 'none' does not exist");
    await expect(refused({ ide2: "none:cloudinit" })).rejects.toThrow("storage 'none' does not exist");
    await expect(refused({ ide2: "none:iso/a.iso,media=cdrom" })).rejects.toThrow("'none' does not exist");
    await expect(refused({ scsi0: "plain:1" })).rejects.toMatchObject({
      message: "Parameter verification failed.\n",
      errors: { storage: "storage 'plain' does not support vm images" },
    });
    expect(node.configs.has(100)).toBe(false);
    await node.addWithDisk(200);
    const asTask = { vmid: 200, scsi3: "none:1" };
    await expect(node.call(`POST ${VM}/config`, asTask, "root")).rejects.toThrow("'none' does not exist");
    const clone = { vmid: 200, newid: 201, storage: "none" };
    await expect(node.call(`POST ${VM}/clone`, clone, "root")).rejects.toThrow("'none' does not exist");
  });

  it("asks for the privileges of every key", async () => {
    const rights = { "/vms/100": ["VM.Allocate", "VM.Config.Options"] };
    await expect(node.call(`POST ${QEMU}`, { vmid: 100, name: "a", memory: "64" }, rights)).rejects.toThrow(
      "VM.Config.Memory",
    );
    await expect(node.call(`POST ${QEMU}`, { vmid: 100, args: "-S" }, rights)).rejects.toThrow(
      "only root can set 'args' config",
    );
  });
});

describe("a VM", () => {
  const states = async (): Promise<unknown> => node.call(`GET ${VM}/status/current`, { vmid: 100 });
  const status = (
    verb: "start" | "stop" | "shutdown" | "reset" | "reboot" | "suspend" | "resume",
    more = {},
  ) => exit(`POST ${VM}/status/${verb}`, { vmid: 100, ...more }, "root");

  beforeEach(async () => {
    await node.addWithDisk(100, { name: "web", agent: "1", serial0: "socket", tags: "a", vga: "qxl" });
  });

  it("that is not there is not stopped", async () => {
    const missing = "unable to find configuration file for VM 999 on node 'n1'";
    expect(await status("stop", { vmid: 999 })).toBe(missing);
    expect(await status("shutdown", { vmid: 999 })).toBe(missing);
    expect(await status("start", { vmid: 999 })).toContain("999.conf' does not exist");
    for (const verb of ["reset", "reboot", "suspend", "resume"] as const)
      await expect(node.call(`POST ${VM}/status/${verb}`, { vmid: 999 })).rejects.toThrow(missing);
  });

  it("is started, paused, resumed, reset and stopped", async () => {
    expect(await states()).toMatchObject({
      status: "stopped",
      name: "web",
      agent: 1,
      serial: 1,
      spice: 1,
      tags: "a",
    });
    expect(await status("start")).toBe("OK");
    expect(await status("start")).toBe("VM 100 already running");
    expect(await states()).toMatchObject({ status: "running", qmpstatus: "running", diskread: 5 });
    expect(await status("suspend")).toBe("OK");
    expect(await states()).toMatchObject({ qmpstatus: "paused" });
    for (const verb of ["shutdown", "reboot"] as const)
      await expect(node.call(`POST ${VM}/status/${verb}`, { vmid: 100 })).rejects.toThrow(
        "VM is paused - cannot shutdown",
      );
    expect(await status("resume")).toBe("OK");
    expect(await status("reset")).toBe("OK");
    expect(await status("stop")).toBe("OK");
    expect(node.guests.get("100")).toBeUndefined();
    for (const verb of ["reset", "reboot", "suspend", "resume"] as const)
      await expect(node.call(`POST ${VM}/status/${verb}`, { vmid: 100 })).rejects.toThrow(
        "VM 100 not running",
      );
  });

  it("is shut down by its guest, or by force when that takes too long", async () => {
    await node.run(100);
    const guest = node.guests.get("100");
    guest?.qmp.answers.set("system_powerdown", () => {
      void guest.end("shutdown");
      return {};
    });
    expect(await status("shutdown")).toBe("OK");
    await node.run(100);
    expect(await status("shutdown", { timeout: 0 })).toBe("VM quit/powerdown failed - got timeout");
    expect(await status("shutdown", { timeout: 0, forceStop: true })).toBe("OK");
    await node.run(100);
    const again = node.guests.get("100");
    again?.qmp.answers.set("system_powerdown", () => {
      void again.end("shutdown");
      return {};
    });
    expect(await status("reboot")).toBe("OK");
    expect(node.guests.get("100")).toBeDefined();
    expect(node.guests.get("100")).not.toBe(again);
  });

  it("is shut down by its agent when that comes up after its button was pressed in vain", async () => {
    await node.call(`PUT ${VM}/config`, { vmid: 100, agent: "1" }, "root");
    await node.run(100);
    const guest = node.guests.get("100");
    guest?.qmp.answers.set("system_powerdown", () => {
      node.agentAnswers = true;
      return {};
    });
    const { agents } = node.host;
    Object.assign(node.host, {
      agents: {
        of: () => ({
          ...agents.of(guest as never),
          execute: async (command: string) => {
            node.agentCommands.push(command);
            await guest?.end("shutdown");
          },
        }),
      },
    });
    expect(await status("shutdown", { timeout: 30 })).toBe("OK");
    expect(node.agentCommands).toEqual(["guest-shutdown"]);
    expect(node.guests.get("100")).toBeUndefined();
  });

  it("whose QEMU does not answer is ended by force alone", async () => {
    await node.run(100);
    for (const command of ["query-status", "system_powerdown"])
      node.guests.get("100")?.qmp.answers.set(command, () => {
        throw new AppError("request.timeout", "got timeout");
      });
    expect(await status("shutdown")).toBe("VM quit/powerdown failed");
    expect(await status("shutdown", { forceStop: true })).toBe("OK");
    expect(node.guests.get("100")).toBeUndefined();
  });

  it("that stands still is stopped at once where it must end", async () => {
    await node.run(100);
    expect(await status("suspend")).toBe("OK");
    const commands = node.guests.get("100")?.qmp.commands ?? [];
    expect(await status("shutdown", { forceStop: true })).toBe("OK");
    expect(commands.map(({ name }) => name)).not.toContain("system_powerdown");
    expect(node.guests.get("100")).toBeUndefined();
  });

  it("takes over what waited as soon as it was stopped", async () => {
    await node.run(100);
    await node.call(`PUT ${VM}/config`, { vmid: 100, cores: 4, delete: "vga" }, "root");
    expect(node.configs.get(100).pending).toEqual({ cores: "4", delete: "vga" });
    expect(await status("stop")).toBe("OK");
    expect(node.configs.get(100)).toMatchObject({ values: { cores: "4" }, pending: {} });
    expect(node.values(100)).not.toHaveProperty("vga");
    await node.run(100);
    await node.call(`PUT ${VM}/config`, { vmid: 100, cores: 2 }, "root");
    expect(await status("shutdown", { timeout: 0, forceStop: true })).toBe("OK");
    expect(node.values(100)["cores"]).toBe("2");
    await node.run(100);
    await node.call(`PUT ${VM}/config`, { vmid: 100, cores: 3 }, "root");
    vi.spyOn(node.configs, "change").mockRejectedValueOnce(new Error("no store"));
    expect(await status("stop")).toBe("OK");
    expect(node.configs.get(100).pending).toEqual({ cores: "3" });
  });

  it("goes on in the QEMU that a backup has started for its disks", async () => {
    await node.run(100);
    await node.configs.change(100, (config) => ({ ...config, values: { ...config.values, lock: "backup" } }));
    const guest = node.guests.get("100");
    if (guest !== undefined) guest.status = "prelaunch";
    expect(await status("start")).toBe("OK");
    expect(guest?.status).toBe("running");
  });

  it("begins with what its owner leaves it where nobody else sizes it", async () => {
    await node.call(`PUT ${VM}/config`, { vmid: 100, balloon: 256, shares: 0 }, "root");
    const sizes: unknown[] = [];
    node.guests.answers.set("balloon", ({ value }) => {
      sizes.push(value);
      return {};
    });
    expect(await status("start")).toBe("OK");
    expect(sizes).toEqual([256 * 1024 * 1024]);
  });

  it("has as long to shut down as its own start order says", async () => {
    await node.call(`PUT ${VM}/config`, { vmid: 100, startup: "order=1,down=0" }, "root");
    await node.run(100);
    expect(await status("shutdown")).toBe("VM quit/powerdown failed - got timeout");
  });

  it("takes some options of its power from root alone", async () => {
    const refused = (verb: "start" | "stop" | "shutdown" | "resume", params: object, name: string) =>
      expect(async () =>
        node.call(`POST ${VM}/status/${verb}`, { vmid: 100, ...params }),
      ).rejects.toMatchObject({ errors: { [name]: "Only root may use this option." } });
    await refused("start", { "force-cpu": "max" }, "force-cpu");
    await refused("start", { migratedfrom: "n2" }, "migratedfrom");
    await refused("stop", { keepActive: true }, "keepActive");
    await refused("shutdown", { keepActive: true }, "keepActive");
    await refused("resume", { nocheck: true }, "nocheck");
    const start = (params: object) => node.call(`POST ${VM}/status/start`, { vmid: 100, ...params }, "root");
    await expect(start({ targetstorage: "1" })).rejects.toMatchObject({
      errors: { targetstorage: "targetstorage can only by used with migratedfrom." },
    });
    await expect(start({ stateuri: "tcp" })).rejects.toThrow("cannot start VM 100 for a migration");
    expect(await status("start", { machine: "pc-q35-6.2", "force-cpu": "max" })).toBe("OK");
    const { args } = node.guests.starts.at(-1) ?? { args: [] };
    expect(args.join(" ")).toMatch(/pc-q35-6\.2.* -cpu max |-cpu max .*pc-q35-6\.2/);
  });

  it("is not started as a template or while locked; only root skips a lock", async () => {
    await node.configs.change(100, (config) => ({ ...config, values: { ...config.values, lock: "backup" } }));
    expect(await status("start")).toBe("VM is locked (backup)");
    expect(await status("stop")).toBe("OK");
    expect(await status("start", { skiplock: true })).toBe("OK");
    expect(await status("stop")).toBe("VM is locked (backup)");
    expect(await status("shutdown")).toBe("VM is locked (backup)");
    await expect(
      node.call(`POST ${VM}/status/stop`, { vmid: 100, skiplock: true }, {}),
    ).rejects.toMatchObject({ errors: { skiplock: "Only root may use this option." } });
    await node.add(101, { template: "1" });
    expect(await exit(`POST ${VM}/status/start`, { vmid: 101 })).toBe(
      "you can't start a vm if it's a template",
    );
    node.guests.failure = new Error("no luck");
    await node.add(102, { smbios1: "uuid=00000000-0000-0000-0000-000000000001" });
    expect(await exit(`POST ${VM}/status/start`, { vmid: 102 })).toBe("start failed: no luck");
    node.guests.failure = new Error("start of VM 102 failed: bad option");
    expect(await exit(`POST ${VM}/status/start`, { vmid: 102 })).toBe("start failed: bad option");
  });

  it("is not started with more network queues than there are descriptors to give it", async () => {
    const card = (n: number) => [`net${n}`, `virtio=BC:24:11:00:00:0${n},bridge=vmbr0,queues=64`];
    const cards = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => card(n)));
    await node.add(103, cards(3));
    expect(await exit(`POST ${VM}/status/start`, { vmid: 103 })).toBe("OK");
    await node.add(104, cards(8));
    expect(await exit(`POST ${VM}/status/start`, { vmid: 104 })).toMatch(
      /^the network cards of VM 104 need \d+ descriptors, of 448 at most: give them fewer queues$/,
    );
  });

  it("is changed at once while it is stopped, later while it runs", async () => {
    const put = (params: object) => node.call(`PUT ${VM}/config`, { vmid: 100, ...params }, "root");
    expect(await put({ cores: 2, net0: "e1000", scsi1: "local:0.01", ide2: "none,media=cdrom" })).toBeNull();
    expect(node.values(100)).toMatchObject({ cores: "2", scsi1: "local:100/vm-100-disk-1.raw,size=10486K" });
    const mac = /BC:[0-9A-F:]+/.exec(node.values(100)["net0"] ?? "")?.[0];
    await put({ net0: "virtio" });
    expect(node.values(100)["net0"]).toMatch(/^virtio=BC:24:11:[0-9A-F:]{8}$/);
    expect(node.values(100)["net0"]).not.toBe(`virtio=${mac}`);
    await put({ delete: "scsi1" });
    expect(node.values(100)["unused0"]).toBe("local:100/vm-100-disk-1.raw");
    await put({ delete: "unused0" });
    expect(node.images(100)).toEqual(["vm-100-disk-0.qcow2"]);
    // A volume of somebody else is let go, not kept.
    node.put("images/999/vm-999-pvc.raw", Buffer.alloc(4096));
    await put({ scsi2: "local:999/vm-999-pvc.raw" });
    await put({ delete: "scsi2" });
    expect(Object.keys(node.values(100)).filter((key) => /^(?:unused|scsi2)/.test(key))).toEqual([]);
    expect(node.images(999)).toEqual(["vm-999-pvc.raw"]);
    await node.run(100);
    const writes = vi.spyOn(node.configs, "change");
    await put({ cores: 4, description: "d", cpuunits: 5 });
    // The running guest has no part in these: one write, for which nobody else waits longer than needed.
    expect(writes).toHaveBeenCalledTimes(1);
    expect(node.configs.get(100)).toMatchObject({
      values: { cores: "2", description: "d" },
      pending: { cores: "4" },
    });
    expect(node.guests.get("100")?.limits).toEqual({ cpuUnits: 5, cpuLimit: 0 });
    await put({ cpulimit: 1.5 });
    expect(node.guests.get("100")?.limits).toEqual({ cpuUnits: 5, cpuLimit: 1.5 });
    // Removed limits hold no longer.
    await put({ delete: "cpulimit,cpuunits" });
    expect(node.guests.get("100")?.limits).toEqual({ cpuUnits: 0, cpuLimit: 0 });
    expect(await exit(`POST ${VM}/config`, { vmid: 100, name: "new" }, "root")).toBe("OK");
    const stale = { name: "x", digest: "0".repeat(40) };
    await expect(put(stale)).rejects.toThrow("checksum mismatch");
    await expect(node.call(`POST ${VM}/config`, { vmid: 100, ...stale }, "root")).rejects.toThrow(
      "checksum mismatch (file change by other user?)",
    );
    await expect(put({ scsi3: "local:0.01", scsi4: "none:1" })).rejects.toThrow("does not exist");
    expect(node.images(100)).toEqual(["vm-100-disk-0.qcow2"]);
  });

  it("is destroyed once: who asks again at the same time hears that it is gone", async () => {
    await node.add(150, {});
    const both = await Promise.all([
      exit(`DELETE ${VM}`, { vmid: 150 }, "root"),
      exit(`DELETE ${VM}`, { vmid: 150 }, "root"),
    ]);
    expect(both.toSorted((a = "", b = "") => a.localeCompare(b))).toEqual([
      "Configuration file 'nodes/n1/qemu-server/150.conf' does not exist",
      "OK",
    ]);
  });

  it("is destroyed with its disks, unless it runs or is protected", async () => {
    await node.run(100);
    await expect(node.call(`DELETE ${VM}`, { vmid: 100 })).rejects.toThrow(
      "VM 100 is running - destroy failed",
    );
    await node.guests.get("100")?.stop();
    await node.call(`PUT ${VM}/config`, { vmid: 100, protection: true }, "root");
    await expect(node.call(`DELETE ${VM}`, { vmid: 100 })).rejects.toThrow("protection mode enabled");
    await node.call(`PUT ${VM}/config`, { vmid: 100, protection: false, lock: "backup" }, "root");
    expect(await exit(`DELETE ${VM}`, { vmid: 100 })).toBe("VM is locked (backup)");
    node.put("images/100/vm-100-disk-9.raw");
    expect(
      await exit(`DELETE ${VM}`, { vmid: 100, skiplock: true, "destroy-unreferenced-disks": true }, "root"),
    ).toBe("OK");
    expect(node.images(100)).toEqual([]);
    await expect(states()).rejects.toThrow(
      "Configuration file 'nodes/n1/qemu-server/100.conf' does not exist",
    );
  });

  it("leaves the backup jobs as well when it is purged, before its task ends", async () => {
    const gone = node.records.collection(goneGuestCollection);
    const seen: unknown[] = [];
    // The server's part.
    const stop = gone.onChange((id, entry) => {
      if (entry === undefined) return;
      seen.push(entry.value);
      void node.records.transact((tx) => tx.delete(goneGuestCollection, id));
    });
    expect(await exit(`DELETE ${VM}`, { vmid: 100, purge: true }, "root")).toBe("OK");
    expect(seen).toEqual([{ vmid: 100, purge: true }]);
    expect(gone.list()).toEqual([]);
    stop();
    const signal = new AbortController().signal;
    await node.addWithDisk(101);
    await node.configs.remove(101);
    expect(await node.configs.waitForPurge(101, { sleep: async () => undefined }, signal)).toBe(false);
  });
});
