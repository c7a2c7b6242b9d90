import { afterEach, beforeEach, describe, expect, it, test } from "vitest";
import { VmNode } from "../../../testing/vm-world.ts";

const VM = "/nodes/{node}/qemu/{vmid}" as const;

let node: VmNode;
beforeEach(async () => {
  node = await VmNode.open();
  node.define("other", { content: "images" });
});
afterEach(() => node.close());

const exit = async (...call: Parameters<VmNode["task"]>): Promise<string | undefined> =>
  (await node.task(...call)).exitStatus;
const clone = (params: object) => exit(`POST ${VM}/clone`, { vmid: 100, newid: 200, ...params });

/** The QEMU of VM 100 copies disks at once. */
function answerCopies(): ReadonlyMap<string, string> {
  const jobs = new Map<string, string>();
  const answers = node.guests.get("100")?.qmp.answers;
  answers?.set("blockdev-add", () => ({}));
  answers?.set("blockdev-del", () => ({}));
  answers?.set("transaction", ({ actions }) => {
    for (const { data } of actions as { data: { "job-id": string } }[]) jobs.set(data["job-id"], "concluded");
    return {};
  });
  answers?.set("query-jobs", () =>
    [...jobs].map(([id, status]) => ({ id, status, "current-progress": 1, "total-progress": 2 })),
  );
  answers?.set("job-dismiss", ({ id }) => {
    jobs.delete(String(id));
    return {};
  });
  return jobs;
}

describe("importing", () => {
  const create = (params: object) => exit("POST /nodes/{node}/qemu", { vmid: 200, ...params }, "root");

  it("copies the disk of a running VM through its QEMU, or leaves nothing", async () => {
    const scsi0 = `local:0,import-from=local:${await node.addWithDisk(100)},cache=unsafe`;
    await node.run(100);
    const jobs = answerCopies();
    expect(await create({ scsi0 })).toBe("OK");
    expect(node.values(200)["scsi0"]).toBe("local:200/vm-200-disk-0.qcow2,cache=unsafe,size=1M");
    const guest = node.guests.get("100");
    expect(guest?.qmp.commands.find(({ name }) => name === "transaction")?.args).toMatchObject({
      actions: [{ data: { "job-id": "import-200-scsi0", target: "import-200-scsi0" } }],
    });
    expect(jobs.size).toBe(0);
    guest?.qmp.answers.delete("transaction");
    expect(await create({ vmid: 201, scsi0 })).toMatch(
      /^unable to create VM 201 - cannot import from 'local:100\/vm-100-disk-0.qcow2' - .*transaction/,
    );
    expect(node.images(201)).toEqual([]);
  });

  it("refuses what is no disk with PVE's texts", async () => {
    expect(await create({ scsi0: "local:0,import-from=local:import/none.raw" })).toBe(
      "unable to create VM 200 - cannot import from 'local:import/none.raw' - could not get size of local:import/none.raw",
    );
    expect(await create({ scsi0: "local:0,import-from=local:100/vm-100-cloudinit.raw" })).toContain(
      "cannot import from cloudinit disk",
    );
    expect(await create({ scsi0: "local:200/vm-200-disk-7.raw" })).toBe(
      "unable to create VM 200 - volume 'local:200/vm-200-disk-7.raw' does not exist",
    );
    await node.addWithDisk(100);
    await node.call(`PUT ${VM}/config`, { vmid: 100, tpmstate0: "local:1,version=v2.0" }, "root");
    await node.run(100);
    const state = String(node.values(100)["tpmstate0"]).split(",")[0];
    expect(await create({ tpmstate0: `local:0,import-from=${state},version=v2.0` })).toContain(
      "cannot clone TPM state while VM is running",
    );
    await node.guests.get("100")?.stop();
    expect(await create({ tpmstate0: `local:0,import-from=${state},version=v2.0` })).toBe("OK");
  });
});

describe("cloning", () => {
  it("copies a stopped VM and gives it an identity of its own", async () => {
    await node.addWithDisk(100, {
      name: "web",
      net0: "virtio=BC:24:11:FF:FF:FF",
      vmgenid: "11111111-1111-1111-1111-111111111111",
      ide2: "none,media=cdrom",
      unused0: "local:100/vm-100-disk-7.raw",
    });
    expect(await clone({ description: "copy", storage: "other", format: "raw" })).toBe("OK");
    const values = node.values(200);
    expect(values).toMatchObject({
      name: "Copy-of-VM-web",
      description: "copy",
      scsi0: "other:200/vm-200-disk-0.raw,size=1M",
      ide2: "none,media=cdrom",
      net0: "virtio=BC:24:11:00:00:01",
    });
    expect(values).not.toHaveProperty("unused0");
    expect(values).not.toHaveProperty("lock");
    expect(values["vmgenid"]).not.toBe("11111111-1111-1111-1111-111111111111");
    expect(values["smbios1"]).not.toBe(node.values(100)["smbios1"]);
    await expect(node.call(`POST ${VM}/clone`, { vmid: 100, newid: 200 })).rejects.toThrow(
      "unable to create VM 200: config file already exists",
    );
  });

  it("builds on a template, many at once, and protects its images", async () => {
    await node.addWithDisk(100, { name: "base" });
    expect(await exit(`POST ${VM}/template`, { vmid: 100 })).toBe("OK");
    expect(node.values(100)).toMatchObject({
      template: "1",
      scsi0: "local:100/base-100-disk-0.qcow2,size=1M",
    });
    const ids = Array.from({ length: 10 }, (_, index) => 200 + index);
    const ends = await Promise.all(ids.map((newid) => clone({ newid, name: `n${newid}` })));
    expect(new Set(ends)).toEqual(new Set(["OK"]));
    expect(node.values(209)["scsi0"]).toBe("local:100/base-100-disk-0.qcow2/209/vm-209-disk-0.qcow2,size=1M");
    await expect(node.call(`POST ${VM}/clone`, { vmid: 100, newid: 300, storage: "other" })).rejects.toThrow(
      "parameter 'storage' not allowed for linked clones",
    );
    await expect(node.call(`POST ${VM}/clone`, { vmid: 100, newid: 300, format: "raw" })).rejects.toThrow(
      "parameter 'format' not allowed for linked clones",
    );
    expect(await clone({ newid: 300, full: true })).toBe("OK");
    expect(await exit(`DELETE ${VM}`, { vmid: 100 })).toBe(
      "base volume 'local:100/base-100-disk-0.qcow2' is still in use by linked cloned",
    );
    expect(node.values(100)).not.toHaveProperty("lock");
    for (const vmid of ids) expect(await exit(`DELETE ${VM}`, { vmid })).toBe("OK");
    expect(await exit(`DELETE ${VM}`, { vmid: 100 })).toBe("OK");
  });

  it("builds on a template that is a linked clone itself, down to the last image", async () => {
    await node.addWithDisk(100);
    await exit(`POST ${VM}/template`, { vmid: 100 });
    await clone({ newid: 200 });
    expect(await exit(`POST ${VM}/template`, { vmid: 200 })).toBe("OK");
    expect(await exit(`POST ${VM}/clone`, { vmid: 200, newid: 300 })).toBe("OK");
    expect(await exit(`POST ${VM}/status/start`, { vmid: 300 })).toBe("OK");
    const reachable = node.guests.starts.at(-1)?.files.map(({ path }) => path.replace(/.*images/, "")) ?? [];
    expect(reachable).toEqual(
      expect.arrayContaining([
        "/300/vm-300-disk-0.qcow2",
        "/200/base-200-disk-0.qcow2",
        "/100/base-100-disk-0.qcow2",
      ]),
    );
    await node.guests.get("300")?.stop();
    expect(await exit(`DELETE ${VM}`, { vmid: 200 })).toBe(
      "base volume 'local:100/base-100-disk-0.qcow2/200/base-200-disk-0.qcow2' is still in use by linked cloned",
    );
    expect(node.values(200)).not.toHaveProperty("lock");
    for (const vmid of [300, 200, 100]) expect(await exit(`DELETE ${VM}`, { vmid })).toBe("OK");
  });

  it("copies a snapshot, and refuses what it cannot", async () => {
    await node.addWithDisk(100);
    await exit(`POST ${VM}/snapshot`, { vmid: 100, snapname: "snap" });
    expect(await clone({ snapname: "snap", name: "old" })).toBe("OK");
    expect(node.values(200)).not.toHaveProperty("snaptime");
    const refused = (params: object) => node.call(`POST ${VM}/clone`, { vmid: 100, newid: 201, ...params });
    await expect(refused({ full: false })).rejects.toThrow(
      "Linked clone feature is not supported for 'local:100/vm-100-disk-0.qcow2' (scsi0)",
    );
    node.define("plain", { content: "iso" });
    await expect(refused({ storage: "plain" })).rejects.toMatchObject({
      errors: { storage: "storage 'plain' does not support vm images" },
    });
    await expect(refused({ snapname: "none" })).rejects.toThrow("snapshot 'none' does not exist");
    await expect(refused({ target: "n2" })).rejects.toThrow(
      "can't clone VM to node 'n2' (VM uses local storage)",
    );
    node.define("ours", { content: "images", shared: true, nodes: "n1" });
    await node.addWithDisk(150);
    expect(await exit(`POST ${VM}/move_disk`, { vmid: 150, disk: "scsi0", storage: "ours", delete: 1 })).toBe(
      "OK",
    );
    await expect(node.call(`POST ${VM}/clone`, { vmid: 150, newid: 201, target: "n2" })).rejects.toThrow(
      "storage 'ours' is not available on node 'n2'",
    );
    await expect(
      node.call(`POST ${VM}/clone`, { vmid: 100, newid: 201 }, { "/vms/100": ["VM.Clone"] }),
    ).rejects.toThrow("Datastore.AllocateSpace");
    await node.add(101, { scsi0: "/dev/sdx" });
    await expect(node.call(`POST ${VM}/clone`, { vmid: 101, newid: 201 })).rejects.toThrow(
      "Full clone feature is not supported for '/dev/sdx' (scsi0)",
    );
    await node.configs.change(101, (config) => ({
      ...config,
      values: { ...config.values, template: "1" },
      snapshots: { s1: { scsi0: "/dev/sdx" } },
    }));
    await expect(node.call(`POST ${VM}/clone`, { vmid: 101, newid: 201, snapname: "s1" })).rejects.toThrow(
      "Linked clone feature is not supported for a snapshot of '/dev/sdx' (scsi0)",
    );
  });

  it("needs the rights to what the copy uses of others", async () => {
    await node.addWithDisk(100, {
      net0: "virtio=BC:24:11:FF:FF:FF,bridge=vmbr0",
      vmstatestorage: "other",
      cpu: "custom-mine",
    });
    const space = ["Datastore.AllocateSpace"];
    const ask = (rights: Record<string, string[]>) =>
      node.call(`POST ${VM}/clone`, { vmid: 100, newid: 201 }, { "/storage/local": space, ...rights });
    await expect(ask({})).rejects.toThrow("/storage/other, Datastore.AllocateSpace");
    const other = { "/storage/other": space };
    await expect(ask(other)).rejects.toThrow("/sdn/zones/localnetwork/vmbr0, SDN.Use");
    const net = { ...other, "/sdn/zones/localnetwork/vmbr0": ["SDN.Use"] };
    await expect(ask(net)).rejects.toThrow("/mapping/cpu/mine, Mapping.Use");
    expect(await ask({ ...net, "/mapping/cpu/mine": ["Mapping.Use"] })).toContain("qmclone");
    await node.add(102, { usb0: "host=1-1" });
    await expect(node.call(`POST ${VM}/clone`, { vmid: 102, newid: 202 }, {})).rejects.toThrow(
      "only root can set 'usb0' config for real devices",
    );
  });

  it("copies the state of a TPM even for a linked clone, and never from under a guest", async () => {
    await node.addWithDisk(100);
    await node.call(`PUT ${VM}/config`, { vmid: 100, tpmstate0: "local:1,version=v2.0" }, "root");
    await node.run(100);
    await expect(node.call(`POST ${VM}/clone`, { vmid: 100, newid: 200 })).rejects.toThrow(
      "cannot clone TPM state while VM is running",
    );
    await node.guests.get("100")?.stop();
    expect(await exit(`POST ${VM}/template`, { vmid: 100 })).toBe("OK");
    expect(await clone({})).toBe("OK");
    expect(node.values(200)).toMatchObject({
      scsi0: expect.stringContaining("base-100-disk-0.qcow2/200/"),
      tpmstate0: expect.stringMatching(/^local:200\/vm-200-disk-\d\.raw,/),
    });
  });

  it("leaves the state of a TPM raw, whatever format is asked for", async () => {
    await node.addWithDisk(100);
    await node.call(`PUT ${VM}/config`, { vmid: 100, tpmstate0: "local:1,version=v2.0" }, "root");
    expect(await clone({ format: "qcow2" })).toBe("OK");
    expect(node.values(200)["tpmstate0"]).toMatch(/\.raw,/);
    const moved = { vmid: 100, disk: "tpmstate0", storage: "other", format: "qcow2" };
    expect(await exit(`POST ${VM}/move_disk`, moved)).toBe("OK");
    expect(node.values(100)["tpmstate0"]).toBe("other:100/vm-100-disk-0.raw,size=4M,version=v2.0");
  });

  it("copies the disks of a running VM through its QEMU, or leaves nothing", async () => {
    await node.addWithDisk(100);
    await node.call(`PUT ${VM}/config`, { vmid: 100, scsi1: "local:0.01" }, "root");
    await node.run(100);
    const guest = node.guests.get("100");
    const jobs = answerCopies();
    expect(await clone({ bwlimit: 100 })).toBe("OK");
    expect(node.values(200)["scsi0"]).toBe("local:200/vm-200-disk-0.qcow2,size=1M");
    expect(jobs.size).toBe(0);
    const sent = guest?.qmp.commands.find(({ name }) => name === "transaction")?.args;
    const limited = { data: { speed: 100 * 1024 } };
    expect(sent).toMatchObject({ actions: [limited, limited] });
    guest?.qmp.answers.delete("transaction");
    const files = [...(guest?.files ?? [])];
    expect(await clone({ newid: 201 })).toMatch(/^clone failed: .*transaction/);
    expect(guest?.files).toEqual(files);
    expect(node.images(201)).toEqual([]);
    expect(node.configs.has(201)).toBe(false);
  });
});

test("variables of UEFI that no running firmware uses are worked on without QEMU", async () => {
  await node.addWithDisk(100);
  const efidisk0 = "local:1,efitype=4m,format=qcow2";
  await node.call(`PUT ${VM}/config`, { vmid: 100, efidisk0 }, "root");
  await node.run(100);
  const jobs = answerCopies();
  node.guests.get("100")?.qmp.answers.set("blockdev-snapshot-internal-sync", () => ({}));
  expect(await exit(`POST ${VM}/snapshot`, { vmid: 100, snapname: "snap" })).toBe("OK");
  expect(await clone({})).toBe("OK");
  expect(jobs.size).toBe(0);
  const named = node.guests.get("100")?.qmp.commands.map(({ args }) => JSON.stringify(args)) ?? [];
  expect(named.some((args) => args.includes("efidisk0"))).toBe(false);
  expect(await exit(`PUT ${VM}/resize`, { vmid: 100, disk: "efidisk0", size: "1M" })).toBe("OK");
  expect(await exit(`POST ${VM}/move_disk`, { vmid: 100, disk: "efidisk0", storage: "other" })).toBe("OK");
  expect(node.values(100)["efidisk0"]).toBe("other:100/vm-100-disk-0.qcow2,efitype=4m,size=1M");
});

describe("templates", () => {
  it("are refused with PVE's texts", async () => {
    const template = (vmid: number) => node.call(`POST ${VM}/template`, { vmid });
    await node.addWithDisk(100);
    await node.run(100);
    await expect(template(100)).rejects.toThrow("you can't convert a VM to template if VM is running");
    await node.guests.get("100")?.stop();
    await exit(`POST ${VM}/snapshot`, { vmid: 100, snapname: "snap" });
    await expect(template(100)).rejects.toThrow("unable to create template, because VM contains snapshots");
    await node.add(101, { template: "1" });
    await expect(template(101)).rejects.toThrow("you can't convert a template to a template");
  });
});

describe("resizing", () => {
  const resize = (size: string, more = {}) =>
    exit(`PUT ${VM}/resize`, { vmid: 100, disk: "scsi0", size, ...more });

  it("grows a disk, and checks everything in the task", async () => {
    await node.addWithDisk(100, { ide2: "none,media=cdrom" });
    expect(await resize("+1M")).toBe("OK");
    expect(node.values(100)["scsi0"]).toBe("local:100/vm-100-disk-0.qcow2,size=2M");
    expect(await resize("2097152")).toBe("OK");
    expect(await resize("1M")).toBe("shrinking disks is not supported");
    expect(await resize("3M", { disk: "scsi5" })).toBe("disk 'scsi5' does not exist");
    expect(await resize("3M", { disk: "ide2" })).toBe("you can't resize a cdrom");
    expect(await resize("3M", { digest: "0".repeat(40) })).toContain("checksum mismatch");
    expect(await resize("3M", { vmid: 999 })).toContain("999.conf' does not exist");
    const nowhere = { vmid: 100, disk: "scsi0", size: "3M" };
    expect(await exit(`PUT ${VM}/resize`, nowhere, { "/vms/100": ["VM.Config.Disk"] })).toBe(
      "Permission check failed (/storage/local, Datastore.AllocateSpace)",
    );
    await expect(node.call(`PUT ${VM}/resize`, { ...nowhere, skiplock: true }, {})).rejects.toMatchObject({
      errors: { skiplock: "Only root may use this option." },
    });
    await node.run(100);
    node.guests.get("100")?.qmp.answers.set("block_resize", () => ({}));
    expect(await resize("4M")).toBe("OK");
    expect(node.guests.get("100")?.qmp.commands.at(-1)).toEqual({
      name: "block_resize",
      args: { "node-name": "drive-scsi0", size: 4 * 1024 * 1024 },
    });
    const scsi0 = "local:100/vm-100-disk-0.qcow2,cache=none,size=4M";
    await node.configs.change(100, (config) => ({ ...config, pending: { scsi0 } }));
    expect(await resize("5M")).toBe("OK");
    expect(node.configs.get(100).pending["scsi0"]).toBe("local:100/vm-100-disk-0.qcow2,cache=none,size=5M");
    await node.configs.change(100, (config) => ({ ...config, pending: { scsi0: "none,media=cdrom" } }));
    expect(await resize("6M")).toBe("OK");
    expect(node.configs.get(100).pending["scsi0"]).toBe("none,media=cdrom");
  });
});

test("numbers of drives and cards stay as they were written, whatever is done to them", async () => {
  await node.addWithDisk(100);
  const put = (params: object) => node.call(`PUT ${VM}/config`, { vmid: 100, ...params }, "root");
  await put({ scsi1: "local:0.01,mbps=50.0,iops=7", net0: "virtio,bridge=vmbr0,rate=1.000000" });
  expect(node.values(100)["scsi1"]).toBe("local:100/vm-100-disk-1.raw,iops=7,mbps=50.0,size=10486K");
  expect(node.values(100)["net0"]).toMatch(/,rate=1\.000000$/);
  expect(await exit(`PUT ${VM}/resize`, { vmid: 100, disk: "scsi1", size: "20M" })).toBe("OK");
  expect(await exit(`POST ${VM}/move_disk`, { vmid: 100, disk: "scsi1", storage: "other" })).toBe("OK");
  expect(await clone({})).toBe("OK");
  expect(await exit(`POST ${VM}/template`, { vmid: 100 })).toBe("OK");
  for (const vmid of [100, 200]) {
    expect(node.values(vmid)["scsi1"]).toMatch(/,iops=7,mbps=50\.0,size=20M$/);
    expect(node.values(vmid)["net0"]).toMatch(/,rate=1\.000000$/);
  }
});

describe("moving a disk", () => {
  const move = (params: object) => exit(`POST ${VM}/move_disk`, { vmid: 100, disk: "scsi0", ...params });

  it("copies it and keeps or destroys the old volume", async () => {
    await node.addWithDisk(100, { ide2: "none,media=cdrom" });
    expect(await move({ storage: "other" })).toBe("OK");
    expect(node.values(100)).toMatchObject({
      scsi0: "other:100/vm-100-disk-0.qcow2,size=1M",
      unused0: "local:100/vm-100-disk-0.qcow2",
    });
    expect(await move({ storage: "other", format: "raw", delete: true })).toBe("OK");
    expect(node.values(100)["scsi0"]).toBe("other:100/vm-100-disk-1.raw,size=1M");
    expect(node.images(100, "other")).toEqual(["vm-100-disk-1.raw"]);
    const refused = (params: object) =>
      node.call(`POST ${VM}/move_disk`, { vmid: 100, disk: "scsi0", ...params });
    await expect(refused({ storage: "other" })).rejects.toThrow(
      "you can't move to the same storage with same format",
    );
    await expect(refused({ storage: "other", disk: "scsi3" })).rejects.toThrow("disk 'scsi3' does not exist");
    await expect(refused({ storage: "other", disk: "ide2" })).rejects.toThrow("you can't move a cdrom");
    const missing = "both 'storage' and 'target-vmid' missing, either needs to be set";
    await expect(refused({})).rejects.toMatchObject({ errors: { storage: missing, "target-vmid": missing } });
    const both = "either set 'storage' or 'target-vmid', but not both";
    await expect(refused({ storage: "other", "target-vmid": 101 })).rejects.toMatchObject({
      errors: { storage: both, "target-vmid": both },
    });
    node.define("plain", { content: "iso" });
    await expect(refused({ storage: "plain" })).rejects.toMatchObject({
      errors: { storage: "storage 'plain' does not support vm images" },
    });
    await expect(refused({ storage: "local", digest: "0".repeat(40) })).rejects.toThrow(
      "detected modified configuration - file changed by other user? Try again.",
    );
  });

  it("moves one that no drive uses, also while the VM runs", async () => {
    await node.addWithDisk(100);
    await node.call(`PUT ${VM}/config`, { vmid: 100, scsi1: "local:0.01" }, "root");
    await node.call(`PUT ${VM}/config`, { vmid: 100, delete: "scsi1" }, "root");
    await node.run(100);
    expect(await move({ disk: "unused0", storage: "other" })).toBe("OK");
    expect(node.values(100)).toMatchObject({
      unused0: "other:100/vm-100-disk-0.raw",
      unused1: "local:100/vm-100-disk-1.raw",
    });
    expect(await move({ disk: "unused1", storage: "other", delete: true })).toBe("OK");
    expect(node.images(100)).toEqual(["vm-100-disk-0.qcow2"]);
  });

  it("keeps the disk of a template an image that clones build upon", async () => {
    await node.addWithDisk(100);
    await exit(`POST ${VM}/template`, { vmid: 100 });
    expect(await move({ storage: "other", delete: true })).toBe("OK");
    expect(node.values(100)["scsi0"]).toBe("other:100/base-100-disk-0.qcow2,size=1M");
    expect(node.images(100)).toEqual([]);
  });

  it("goes no faster than the request, the storages or the datacenter allow", async () => {
    node.define("slow", { content: "images", bwlimit: "move=20480" });
    await node.addWithDisk(100);
    const speeds: (number | undefined)[] = [];
    for (const storage of ["slow", "other"]) {
      const { plugin } = node.storages.find(storage);
      const copy = plugin.importFrom.bind(plugin);
      plugin.importFrom = (source, target, work) => {
        speeds.push(work?.bytesPerSecond);
        return copy(source, target, work);
      };
    }
    expect(await move({ storage: "slow", delete: true })).toBe("OK");
    expect(await move({ storage: "other", delete: true })).toBe("OK");
    expect(await move({ storage: "slow", delete: true, bwlimit: 0 })).toBe("OK");
    const rights = { "/vms/100": ["VM.Config.Disk"], "/storage/other": ["Datastore.AllocateSpace"] };
    const call = [
      `POST ${VM}/move_disk`,
      { vmid: 100, disk: "scsi0", storage: "other", bwlimit: 99_999_999 },
    ] as const;
    expect(await exit(...call, rights)).toBe("OK");
    expect(await clone({ storage: "other", bwlimit: 4096 })).toBe("OK");
    expect(speeds).toEqual([20480 * 1024, 20480 * 1024, undefined, 20480 * 1024, 4096 * 1024]);
  });

  it("gives it to another VM", async () => {
    await node.addWithDisk(100, { ide2: "none,media=cdrom" });
    await node.addWithDisk(101);
    const give = (params: object) =>
      node.call(`POST ${VM}/move_disk`, { vmid: 100, disk: "scsi0", "target-vmid": 101, ...params });
    await expect(give({})).rejects.toThrow(/^Target disk key 'scsi0' is already in use for VM '101'$/);
    await expect(give({ "target-vmid": 100 })).rejects.toMatchObject({
      errors: { "target-vmid": "must be different than source VMID to reassign disk" },
    });
    await expect(give({ "target-vmid": 999 })).rejects.toThrow("could not find target VM 999");
    await expect(give({ "target-disk": "scsi1", "target-digest": "0" })).rejects.toThrow(
      "VM 101: detected modified configuration",
    );
    await node.add(102, { template: "1" });
    await expect(give({ "target-vmid": 102 })).rejects.toThrow("Can't move disks from or to template VMs");
    await expect(
      node.call(
        `POST ${VM}/move_disk`,
        { vmid: 100, disk: "scsi0", "target-vmid": 101, "target-disk": "scsi1" },
        { "/vms/101": ["VM.Config.Disk"] },
      ),
    ).rejects.toThrow("/storage/local, Datastore.AllocateSpace");
    await expect(give({ disk: "scsi9" })).rejects.toThrow("Disk 'scsi9' for VM '100' does not exist");
    await expect(give({ disk: "ide2", "target-disk": "ide2" })).rejects.toThrow(
      "CD drive contents can't be moved to another VM",
    );
    await node.call(`PUT ${VM}/config`, { vmid: 100, boot: "order=scsi0;ide2" }, "root");
    expect(await move({ "target-vmid": 101, "target-disk": "virtio3" })).toBe("OK");
    expect(node.values(101)["virtio3"]).toBe("local:101/vm-101-disk-1.qcow2,size=1M");
    expect(node.values(100)).not.toHaveProperty("scsi0");
    expect(node.values(100)["boot"]).toBe("order=ide2");
    expect([node.images(100), node.images(101).length]).toEqual([[], 2]);
    await node.run(101);
    // A guest that cannot take it now gets it with its next start.
    await node.addWithDisk(103);
    expect(await move({ vmid: 103, "target-vmid": 101, "target-disk": "scsi4" })).toBe("WARNINGS: 1");
    expect(node.configs.get(101).pending["scsi4"]).toBe("local:101/vm-101-disk-2.qcow2,size=1M");
    expect([node.images(103), node.values(103)["scsi0"]]).toEqual([[], undefined]);
    await expect(
      node.call(`POST ${VM}/move_disk`, { vmid: 101, disk: "virtio3", "target-vmid": 100 }),
    ).rejects.toThrow("while the source VM is running - detach first");
  });
});

it("says which features a VM's disks have", async () => {
  await node.addWithDisk(100);
  const feature = (name: string) => node.call(`GET ${VM}/feature`, { vmid: 100, feature: name });
  expect(await feature("snapshot")).toEqual({ hasFeature: true, nodes: ["n1"] });
  expect(await feature("clone")).toEqual({ hasFeature: false, nodes: ["n1"] });
});
