// Restores through their method: real archives and qemu-nbd, VMs whose guests are made up.
import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { guestCollection, guestRecord, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { BackupWorld, hasBackupTools } from "../../../testing/backup-world.ts";

let world: BackupWorld;
beforeEach(async () => {
  world = await BackupWorld.open();
});
afterEach(() => world.close());

const archive = async (vmid: number, more: object = {}): Promise<string> => {
  await world.vzdump({ vmid: String(vmid), storage: "local", ...more });
  return world.dumps().at(-1) ?? "";
};
const change = (vmid: number, values: Readonly<Record<string, string>>) =>
  world.configs.change(vmid, (config) => ({ ...config, values: { ...config.values, ...values } }));
/** An archive made elsewhere, of these files and disks. */
const foreign = async (
  files: Readonly<Record<string, string>>,
  devices: readonly { name: string; data: Buffer }[] = [],
): Promise<string> => {
  const name = "vzdump-qemu-1000-2020_01_02-00_00_00.vma";
  await world.storages.find("local").plugin.activate();
  const writer = await world.tools.createArchive(join(world.root, "local", "dump", name), "none", {
    ctime: 1,
    configs: new Map(Object.entries(files).map(([file, text]) => [file, Buffer.from(text)])),
    devices: devices.map(({ name: device, data }, index) => ({
      id: index + 1,
      name: device,
      size: data.length,
    })),
  });
  for (const [index, { data }] of devices.entries())
    for (let at = 0; at < data.length; at += 65_536)
      await writer.cluster(index + 1, at / 65_536, data.subarray(at, at + 65_536));
  await writer.finish();
  return name;
};

/** What servers do: who asks for a pool is in it. */
const admitToPools = (): string[] => {
  const admitted: string[] = [];
  world.records.collection(guestCollection).onChange((id, entry) => {
    const { wantedPool, ...rest } = entry?.value ?? {};
    if (wantedPool === undefined) return;
    admitted.push(`${id} ${wantedPool}`);
    void world.records.transact((tx) => tx.put(guestCollection, id, rest as GuestRecord));
  });
  return admitted;
};

describe.skipIf(!hasBackupTools)("restores (skipped without qemu-utils and lzop)", () => {
  test("of a cut archive leave nothing, whatever its compression", async () => {
    await world.addFilled(100);
    for (const compress of ["0", "zstd", "gzip"])
      await world.vzdump({ vmid: "100", storage: "local", compress });
    for (const name of world.dumps()) {
      truncateSync(join(world.root, "local", "dump", name), 13_500);
      const failed = await world.restore(110, name);
      expect(failed.state, name).toBe("failed");
      expect(failed.exitStatus, name).toContain("damaged");
      expect(world.configs.has(110)).toBe(false);
      expect(world.images(110)).toEqual([]);
    }
  });

  test("of a changed archive are refused by its checksums, and the VM that was there stays", async () => {
    await world.addFilled(100);
    const name = await archive(100);
    const path = join(world.root, "local", "dump", name);
    const whole = readFileSync(path);
    for (const [at, text] of [
      [2_100, "the header's checksum does not match"],
      [whole.indexOf("VMAE") + 100, "an extent's checksum does not match"],
    ] as const) {
      const bad = Buffer.from(whole);
      bad.writeUInt8(bad.readUInt8(at) ^ 0xff, at);
      writeFileSync(path, bad);
      const before = world.configs.get(100);
      const data = world.content(100, "vm-100-disk-0.raw");
      expect((await world.restore(100, name, { force: true })).exitStatus).toContain(text);
      expect(world.configs.get(100)).toEqual(before);
      expect(world.images(100)).toEqual(["vm-100-disk-0.raw"]);
      expect(world.content(100, "vm-100-disk-0.raw").equals(data)).toBe(true);
    }
  });

  test("take the place of a VM, whose disks go once the archive has proven whole", async () => {
    const data = await world.addFilled(100);
    const name = await archive(100);
    const plugin = world.storages.find("local").plugin;
    const extra = await plugin.alloc({ vmid: 100, format: "qcow2", size: 1024 * 1024 });
    const spare = await plugin.alloc({ vmid: 100, format: "raw", size: 1024 });
    await plugin.snapshot(extra, "before");
    await world.configs.change(100, (config) => ({
      ...config,
      values: { ...config.values, name: "changed", scsi1: `local:${extra}`, unused3: `local:${spare}` },
      snapshots: { before: { scsi1: `local:${extra}` } },
    }));
    writeFileSync(join(world.root, "local", "images", "100", "vm-100-disk-0.raw"), "lost");
    await expect(world.restore(100, name)).rejects.toThrow(
      "unable to restore VM 100 - VM 100 already exists on node 'n1'",
    );
    expect(
      await world.restore(100, name, { force: true, cores: 3, net0: "virtio", cipassword: "secret" }),
    ).toMatchObject({
      state: "done",
    });
    const values = world.values(100);
    expect(values).toMatchObject({
      name: "web",
      cores: "3",
      net0: expect.stringMatching(/^virtio=BC:24:11:/),
      unused0: `local:${extra}`,
      unused1: `local:${spare}`,
      cipassword: expect.stringMatching(/^\$5\$|^\$6\$|^hash/),
    });
    expect(JSON.stringify(world.engine.get(world.lastTask)?.args)).not.toContain("secret");
    expect(values["lock"]).toBeUndefined();
    expect(world.configs.get(100).snapshots).toEqual({});
    expect(await plugin.snapshots(extra)).toEqual([]);
    const file = /local:100\/([^,]+)/.exec(values["scsi0"] ?? "")?.[1] ?? "";
    expect(world.content(100, file).equals(data)).toBe(true);
    expect(world.images(100)).toHaveLength(3);
    expect(world.images(100)).not.toContain("vm-100-disk-0.raw");
  });

  test("do not touch a VM that runs, is protected, locked or somewhere else", async () => {
    await world.addFilled(100);
    const name = await archive(100);
    await world.run(100);
    expect((await world.restore(100, name, { force: true })).exitStatus).toBe(
      "unable to restore VM 100 - vm is running",
    );
    await world.guests.get("100")?.kill();
    await change(100, { protection: "1" });
    expect((await world.restore(100, name, { force: true })).exitStatus).toBe(
      "unable to restore VM 100 - - protection mode enabled",
    );
    await change(100, { lock: "backup" });
    await expect(world.restore(100, name, { force: true })).rejects.toThrow(
      "unable to restore VM 100 - VM is locked (backup)",
    );
    expect(world.values(100)).toMatchObject({ protection: "1", lock: "backup" });
    await world.records.transact((tx) =>
      tx.put(guestCollection, "200", guestRecord({ vmid: 200, type: "lxc", node: "n2", conf: "" })),
    );
    await expect(world.restore(200, name, { force: true })).rejects.toThrow(
      "unable to restore VM 200 - CT 200 already exists on node 'n2'",
    );
  });

  test("give a copy an identity of its own, start it, put it into a pool and mind a limit", async () => {
    await world.addFilled(100);
    await change(100, { net0: "virtio=BC:24:11:AA:AA:AA", vmgenid: "21a7e7bc-3cd2-4232-a009-a41f4ee992ae" });
    const name = await archive(100);
    const options = { unique: true, start: true, bwlimit: 100_000, pool: "web" };
    const admitted = admitToPools();
    expect(await world.restore(101, name, options)).toMatchObject({ exitStatus: "OK" });
    expect(world.logged()).toContain("Execute autostart");
    expect(world.guests.get("101")?.status).toBe("running");
    const [before, after] = [world.values(100), world.values(101)];
    for (const key of ["net0", "vmgenid", "smbios1"]) expect(after[key], key).not.toBe(before[key]);
    world.guests.failure = new Error("no memory");
    expect(await world.restore(102, name, { start: true })).toMatchObject({ exitStatus: "WARNINGS: 1" });
    expect(world.configs.has(102)).toBe(true);
    await world.guests.get("101")?.kill();
    expect(await world.restore(101, name, { force: true, pool: "web" })).toMatchObject({ exitStatus: "OK" });
    expect(new Set(admitted)).toEqual(new Set(["101 web"]));
  });

  test("bring a microvm back as one, and a VM that is none in its place", async () => {
    await world.addFilled(100);
    const plain = await archive(100);
    const microvm = { kernel: "local:snippets/kernel", cmdline: "quiet panic=1" };
    await world.configs.replace(100, world.configs.get(100), { microvm });
    await change(100, { name: "small" });
    const name = await archive(100);
    expect(name).not.toBe(plain);
    expect(await world.restore(101, name)).toMatchObject({ state: "done" });
    expect(world.configs.microvm(101)).toEqual(microvm);
    expect(world.values(101)).toMatchObject({ name: "small" });
    expect(JSON.stringify(world.values(101))).not.toContain("microvm");
    truncateSync(join(world.root, "local", "dump", plain), 13_500);
    expect(await world.restore(101, plain, { force: true })).toMatchObject({ state: "failed" });
    expect(world.configs.microvm(101)).toEqual(microvm);
    const other = await foreign({ "qemu-server.conf": "cores: 1\n" });
    expect(await world.restore(101, other, { force: true })).toMatchObject({ state: "done" });
    expect(world.configs.microvm(101)).toBeUndefined();
    expect(await world.restore(101, name, { force: true })).toMatchObject({ state: "done" });
    expect(world.configs.microvm(101)).toEqual(microvm);
  });

  test("boot no snippet of a storage that whoever restores them does not own", async () => {
    await world.addFilled(100);
    const microvm = { kernel: "local:iso/kernel.iso", initrd: "local:snippets/initrd" };
    await world.configs.replace(100, world.configs.get(100), { microvm });
    const name = await archive(100);
    const rights = {
      "/vms/100": ["VM.Backup"],
      "/vms/101": ["VM.Allocate"],
      "/storage/local": ["Datastore.AllocateSpace", "Datastore.Audit"],
    };
    expect(await world.restore(101, name, {}, rights)).toMatchObject({
      exitStatus: "missing privileges to access local:snippets/initrd",
    });
    expect(world.configs.find(101)).toBeUndefined();
    rights["/storage/local"].push("Datastore.Allocate");
    expect(await world.restore(101, name, {}, rights)).toMatchObject({ state: "done" });
  });

  test("go to another storage, keep disks that were there, and release all when one cannot be made", async () => {
    const data = await world.addFilled(100);
    const name = await archive(100);
    const plugin = world.storages.find("local").plugin;
    const kept = await plugin.alloc({ vmid: 111, format: "raw", size: 1024 });
    world.define("other", { content: "images" });
    world.define("dumps", { content: "backup" });
    await expect(world.restore(111, name, { storage: "nowhere" })).rejects.toThrow(
      "storage 'nowhere' does not exist",
    );
    expect(await world.restore(111, name, { storage: "dumps" })).toMatchObject({
      exitStatus: "Content type 'images' is not available on storage 'dumps'",
    });
    expect(world.images(111)).toEqual([kept.split("/")[1]]);
    expect(await world.restore(111, name, { storage: "other" })).toMatchObject({ state: "done" });
    expect(readFileSync(join(world.root, "other/images/111", world.images(111, "other")[0] ?? ""))).toEqual(
      data,
    );
  });

  test("understand archives made elsewhere: further files, keys they do not know, disks without a storage", async () => {
    const data = Buffer.alloc(100_000, 9);
    const conf = [
      "#a note",
      "boot: order=scsi0",
      "nobodyknows: this",
      "scsi0: gone:vm-7-disk-0,size=100000",
      "scsi1: gone:vm-7-disk-1,backup=0",
      "ide2: none,media=cdrom",
      "#qmdump#map:scsi0:drive-scsi0::raw:",
      "",
    ].join("\n");
    const devices = [{ name: "drive-scsi0", data }];
    const name = await foreign({ "qemu-server.conf": conf, "qemu-server.fw": "[OPTIONS]" }, devices);
    expect(await world.restore(120, name)).toMatchObject({ state: "done", warnings: 2 });
    expect(world.values(120)).toMatchObject({
      boot: "order=scsi0",
      scsi0: expect.stringContaining("local:120/vm-120-disk-0.raw"),
      description: expect.stringContaining("a note"),
    });
    expect(world.values(120)["scsi1"]).toBeUndefined();
    expect(world.content(120, "vm-120-disk-0.raw").subarray(0, data.length).equals(data)).toBe(true);
  });

  test("fail on an archive without a configuration or without the data of a disk", async () => {
    const empty = await foreign({});
    expect((await world.restore(112, empty)).exitStatus).toBe("the backup archive holds no VM configuration");
    const odd = await foreign({ "qemu-server.conf": "#qmdump#map:scsi0:drive-scsi0:local:raw:\n" });
    expect((await world.restore(113, odd)).exitStatus).toBe(
      "archive does not contain data for drive 'scsi0'",
    );
    expect(world.configs.has(113)).toBe(false);
  });

  test("make a template of what was one, and a cloud-init drive of their own", async () => {
    await world.addFilled(100);
    const ci = await world.storages
      .find("local")
      .plugin.alloc({ vmid: 100, format: "qcow2", name: "vm-100-cloudinit.qcow2", size: 4096 });
    await change(100, { template: "1", ide2: `local:${ci},media=cdrom` });
    const name = await archive(100);
    expect(await world.restore(130, name)).toMatchObject({ state: "done" });
    expect(world.images(130)).toEqual(["base-130-disk-0.raw", "vm-130-cloudinit.qcow2"]);
    expect(world.values(130)).toMatchObject({
      template: "1",
      ide2: expect.stringContaining("vm-130-cloudinit"),
    });
    expect(await world.restore(100, name, { force: true })).toMatchObject({ state: "done" });
    expect(world.values(100)["ide2"]).toContain(ci);
    expect(world.images(100)).toContain("vm-100-cloudinit.qcow2");
  });

  test("ask again for networks and devices, and share no disk with another VM", async () => {
    await world.addFilled(100);
    const conf = (lines: string) => foreign({ "qemu-server.conf": `memory: 16\n${lines}\n` });
    const rights = {
      "/storage/local": ["Datastore.AllocateSpace", "Datastore.Allocate"],
      "/vms/1000": ["VM.Backup"],
      "/vms/140": ["VM.Allocate", "VM.Config.Network"],
    };
    for (const [line, refusal] of [
      ["net0: virtio,bridge=vmbr7", "/sdn/zones/localnetwork/vmbr7, SDN.Use"],
      ["net0: virtio,bridge=vmbr7,tag=9", "/sdn/zones/localnetwork/vmbr7/9, SDN.Use"],
      ["vlan7: e1000=BC:24:11:00:00:02", "/sdn/zones/localnetwork/vmbr7, SDN.Use"],
      ["usb0: host=1234:5678", "only root can set 'usb0' config for real devices"],
      ["hostpci0: 01:00.0", "only root can set 'hostpci0' config for non-mapped devices"],
      ["hostpci0: mapping=gpu", "/mapping/pci/gpu, Mapping.Use"],
      ["virtiofs0: dirid=home", "/mapping/dir/home, Mapping.Use"],
    ] as const) {
      const name = await conf(line);
      await expect(world.restore(140, name, {}, rights), line).rejects.toThrow(refusal);
    }
    expect(world.configs.has(140)).toBe(false);
    const name = await conf("net0: virtio,bridge=vmbr7");
    const instead = { net0: "virtio,bridge=vmbr8" };
    const granted = { ...rights, "/sdn/zones/localnetwork/vmbr8": ["SDN.Use"] };
    expect(await world.restore(140, name, instead, granted)).toMatchObject({ state: "done" });
    const disk = world.values(100)["scsi0"]?.split(",")[0] ?? "";
    const sharing = await conf(`scsi0: ${disk}\nscsi1: elsewhere:vm-7-disk-0\nide2: none,media=cdrom`);
    expect(await world.restore(141, sharing)).toMatchObject({ state: "done" });
    expect(world.values(141)).toMatchObject({ scsi1: "elsewhere:vm-7-disk-0", ide2: "none,media=cdrom" });
    expect(world.values(141)).not.toHaveProperty("scsi0");
    expect(disk).not.toBe("");
  });

  test("take nothing from an archive that reaches the host, unless root asks or a VM has it", async () => {
    await world.addFilled(100);
    const rights = {
      "/storage/local": ["Datastore.AllocateSpace"],
      "/vms/1000": ["VM.Backup"],
      "/vms/100": ["VM.Backup"],
      "/vms/140": ["VM.Allocate", "VM.Config.Disk", "VM.Config.HWType", "VM.Config.Options"],
    };
    const reaching = [
      "args: -drive file=/etc/shadow",
      "hookscript: local:snippets/x.sh",
      "scsi0: /dev/sda",
      "ide2: /etc/shadow,media=cdrom",
      "serial0: /dev/ttyS0",
      "parallel0: /dev/parport0",
      "ivshmem: size=4,name=others",
    ];
    for (const line of reaching) {
      const name = await foreign({ "qemu-server.conf": `memory: 16\n${line}\n` });
      const [key = ""] = line.split(":");
      await expect(world.restore(140, name, {}, rights), line).rejects.toThrow(
        `only root can set '${key}' config`,
      );
    }
    expect(world.configs.has(140)).toBe(false);
    const asRoot = await foreign({ "qemu-server.conf": "memory: 16\nserial0: /dev/ttyS0\n" });
    expect(await world.restore(141, asRoot)).toMatchObject({ state: "done" });
    expect(world.values(141)["serial0"]).toBe("/dev/ttyS0");
    // What root set once comes back with whoever may save it.
    await change(100, { args: "-no-hpet", vmstate: "local:100/vm-100-state-x.raw" });
    await archive(100);
    const own = world.dumps().find((name) => name.startsWith("vzdump-qemu-100-")) ?? "";
    expect(await world.restore(140, own, {}, rights)).toMatchObject({ state: "done" });
    expect(world.values(140)).toMatchObject({ args: "-no-hpet" });
    expect(world.values(140)).not.toHaveProperty("vmstate");
    await change(100, { args: "-no-acpi" });
    await expect(world.restore(142, own, {}, { ...rights, "/vms/142": ["VM.Allocate"] })).rejects.toThrow(
      "only root can set 'args' config",
    );
    // The archive became another one after it was looked at.
    const { upid } = await world.engine.submit({
      type: "qmrestore",
      resources: ["vm/143"],
      args: { vmid: 143, archive: `local:backup/${asRoot}`, storages: ["local"], limited: true },
      actor: "joe@pve",
      subject: "143",
    });
    expect((await world.engine.wait(upid)).exitStatus).toContain("only root can set 'serial0' config");
    expect(world.configs.has(143)).toBe(false);
  });

  test("need the right to make the VM, to use the archive and to allocate where its disks go", async () => {
    await world.addFilled(100);
    const name = await archive(100);
    const archiveRights = { "/storage/local": ["Datastore.AllocateSpace"], "/vms/100": ["VM.Backup"] };
    await expect(world.restore(140, name, {}, archiveRights)).rejects.toThrow("Permission check failed");
    const rights = { ...archiveRights, "/vms/140": ["VM.Allocate"] };
    await expect(world.restore(140, name, {}, { "/vms/140": ["VM.Allocate"] })).rejects.toThrow(
      "Permission check failed",
    );
    await expect(world.restore(140, name, { storage: "other" }, rights)).rejects.toThrow(
      "Permission check failed",
    );
    expect(await world.restore(140, name, { bwlimit: 0 }, rights)).toMatchObject({ state: "done" });
    admitToPools();
    const inPool = { ...archiveRights, "/pool/web": ["VM.Allocate", "VM.Config.CPU"] };
    expect((await world.restore(141, name, { pool: "web", cores: 2 }, inPool)).state).toBe("done");
    await expect(world.restore(142, name, { pool: "web", memory: 64 }, inPool)).rejects.toThrow(
      "Permission check failed",
    );
    // Whoever may save it may put it back.
    expect(await world.restore(100, name, { force: true }, archiveRights)).toMatchObject({ state: "done" });
    world.define("limited", { content: "images", bwlimit: "restore=50000" });
    await world.vzdump({ vmid: "100", storage: "local" });
    const limited = {
      ...rights,
      "/vms/143": ["VM.Allocate"],
      "/storage/limited": ["Datastore.AllocateSpace"],
    };
    expect(await world.restore(143, name, { storage: "limited", bwlimit: 9_999_999 }, limited)).toMatchObject(
      {
        state: "done",
      },
    );
    const denied = await foreign({ "qemu-server.conf": "#qmdump#map:scsi0:drive-scsi0:limited:raw:\n" }, [
      { name: "drive-scsi0", data: Buffer.alloc(4096) },
    ]);
    const few = {
      "/vms/144": ["VM.Allocate"],
      "/vms/1000": ["VM.Backup"],
      "/storage/local": ["Datastore.AllocateSpace"],
    };
    expect((await world.restore(144, denied, {}, few)).exitStatus).toBe(
      "Permission check failed (/storage/limited, Datastore.AllocateSpace)",
    );
  });

  test("refuse what cannot be meant", async () => {
    await world.addFilled(100);
    const name = await archive(100);
    await expect(world.restore(150, name, { scsi1: "local:1" })).rejects.toMatchObject({
      errors: { scsi1: "option conflicts with option 'archive'" },
    });
    await expect(world.restore(150, name, { "live-restore": true, start: true })).rejects.toMatchObject({
      errors: { start: "cannot specify 'start' with 'live-restore'" },
    });
    const post = (from: string, rights?: "root") =>
      world.call("POST /nodes/{node}/qemu", { vmid: 150, archive: from }, rights);
    await expect(post("-", "root")).rejects.toThrow("pipe requires cli environment");
    await expect(post("/tmp/x.vma")).rejects.toThrow("Only root can pass arbitrary filesystem paths.");
    await expect(post("local:iso/x.iso")).rejects.toThrow("content type needs to be 'backup'");
    const path = join(world.root, "local", "dump", name);
    const upid = await post(path, "root");
    expect(await world.engine.wait(upid)).toMatchObject({ state: "done" });
  });
});
