import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { clusterCollection } from "@gpve/domain/cluster/datacenter-options.ts";
import { cpuModelCollection } from "@gpve/domain/vm/host/custom-cpu-model.ts";
import { VmNode } from "../../../testing/vm-world.ts";

const QEMU = "/nodes/{node}/qemu" as const;
const VM = "/nodes/{node}/qemu/{vmid}" as const;

let node: VmNode;
beforeEach(async () => {
  node = await VmNode.open();
  await node.addWithDisk(100, { name: "web" });
});
afterEach(() => node.close());

const put = (params: object, rights?: Parameters<VmNode["call"]>[2]) =>
  node.call(`PUT ${VM}/config`, { vmid: 100, ...params }, rights ?? "root");
const create = (params: object, rights?: Parameters<VmNode["call"]>[2]) =>
  node.call(`POST ${QEMU}`, { vmid: 101, ...params }, rights ?? "root");

describe("a request to change a VM", () => {
  it("is looked at before the VM is", async () => {
    await expect(put({ vmid: 999 })).rejects.toThrow("no options specified");
    await expect(put({ vmid: 999, cores: 1 })).rejects.toThrow("999.conf' does not exist");
    await expect(put({ vmid: 999, skiplock: true, cores: 1 }, {})).rejects.toMatchObject({
      errors: { skiplock: "Only root may use this option." },
    });
  });

  it("answers a request for more balloon than memory before anything else is done", async () => {
    const text = "balloon value too large (must be smaller than assigned memory)";
    await expect(put({ balloon: 4096 })).rejects.toThrow(text);
    await expect(node.call(`POST ${VM}/config`, { vmid: 100, balloon: 4096 }, "root")).rejects.toThrow(text);
  });

  it("says of drives what does not fit, whoever asks", async () => {
    node.put("template/iso/a.iso", Buffer.alloc(2048));
    const refused = (params: object, errors: object) => expect(put(params)).rejects.toMatchObject({ errors });
    await refused(
      { scsi1: "local:iso/a.iso" },
      { scsi1: "explicit 'media=cdrom' is required for iso images" },
    );
    await refused(
      { scsi1: "local:1,import-from=local:100/vm-100-disk-0.qcow2" },
      { scsi1: "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>" },
    );
    await refused(
      { efidisk0: "local:0,efitype=4m,import-from=local:100/vm-100-disk-0.qcow2" },
      { efidisk0: "need to specify 'pre-enrolled-keys' when using 'import-from'" },
    );
    await refused(
      { tpmstate0: "local:0,import-from=local:100/vm-100-disk-0.qcow2" },
      { tpmstate0: "need to specify 'version' when using 'import-from'" },
    );
    await expect(put({ scsi1: "local:100/vm-100-disk-0.qcow2,format=raw" })).rejects.toThrow(
      "drive 'scsi1' - volume 'local:100/vm-100-disk-0.qcow2' - 'format=raw' option different from storage format 'qcow2'",
    );
    await refused({ unused3: "/dev/sda" }, { unused3: "not a valid volid: /dev/sda" });
    await expect(create({ scsi1: "local:iso/a.iso" })).rejects.toMatchObject({
      errors: { scsi1: "explicit 'media=cdrom' is required for iso images" },
    });
    expect(await put({ cdrom: "local:iso/a.iso" })).toBeNull();
    expect(node.values(100)["ide2"]).toContain("media=cdrom");
  });

  it("names only scripts that can be run", async () => {
    node.put("snippets/a.yaml");
    node.put("snippets/a.sh");
    await expect(put({ hookscript: "local:iso/a.iso" })).rejects.toMatchObject({
      errors: { hookscript: "'local:iso/a.iso' is not in the snippets directory\n" },
    });
    await expect(put({ hookscript: "local:snippets/a.yaml" })).rejects.toMatchObject({
      errors: { hookscript: "script 'local:snippets/a.yaml' is not executable\n" },
    });
    await expect(put({ hookscript: "nowhere:snippets/a.sh" })).rejects.toMatchObject({
      errors: { hookscript: "storage 'nowhere' does not exist\n" },
    });
    expect(await put({ hookscript: "local:snippets/a.sh" })).toBeNull();
    Object.assign(node.host.files, { exists: () => false });
    await expect(put({ hookscript: "local:snippets/b.sh" })).rejects.toMatchObject({
      errors: { hookscript: "script 'local:snippets/b.sh' does not exist\n" },
    });
  });

  it("names only CPU models that there are", async () => {
    const unknown = { errors: { cpu: "invalid format - Custom cputype 'mine' not found\n" } };
    await expect(put({ cpu: "custom-mine" })).rejects.toMatchObject(unknown);
    await expect(create({ cpu: "custom-mine,flags=+aes" })).rejects.toMatchObject(unknown);
    await node.records.transact((tx) => tx.put(cpuModelCollection, "mine", { "reported-model": "qemu64" }));
    expect(await put({ cpu: "custom-mine" })).toBeNull();
  });

  it("needs no right on the storage of cloud-init's snippets, as in PVE, but they must be some", async () => {
    const cloudinit = { "/vms/100": ["VM.Config.Cloudinit"] };
    const network = { "/vms/100": ["VM.Config.Network"] };
    const cicustom = "user=local:snippets/a.yaml,vendor=local:snippets/b.yaml";
    for (const mine of [cloudinit, network, cloudinit]) expect(await put({ cicustom }, mine)).toBeNull();
    await expect(put({ cicustom }, { "/vms/100": ["VM.Config.Disk"] })).rejects.toThrow(
      "VM.Config.Cloudinit",
    );
    const named = (volume: string): Promise<unknown> => put({ cicustom: `user=${volume}` }, cloudinit);
    await expect(named("local:iso/a.iso")).rejects.toThrow("content type needs to be 'snippets'");
    await expect(named("local:100/vm-100-disk-0.raw")).rejects.toThrow("content type needs to be 'snippets'");
    await expect(named("nowhere:snippets/a.yaml")).rejects.toThrow("storage 'nowhere' does not exist");
    await expect(named("local:snippets/../../secret")).rejects.toThrow();
  });

  it("needs rights on the storages that it names", async () => {
    const mine = { "/vms/100": ["VM.Config.Disk", "VM.Config.Cloudinit"] };
    await expect(put({ vmstatestorage: "local" }, mine)).rejects.toThrow(
      "/storage/local, Datastore.AllocateSpace",
    );
    await put({ scsi1: "local:0.01" });
    await put({ delete: "scsi1" });
    await expect(put({ delete: "unused0" }, mine)).rejects.toThrow("/storage/local, Datastore.AllocateSpace");
    await expect(put({ delete: "scsi0", force: true }, mine)).rejects.toThrow("Datastore.AllocateSpace");
  });

  it("fills in what PVE fills in: a generation, and the machine of a Windows guest", async () => {
    await put({ vmgenid: "1", ostype: "win11" });
    expect(node.values(100)).toMatchObject({
      vmgenid: expect.stringMatching(/^[0-9a-f-]{36}$/),
      machine: expect.stringMatching(/^pc-i440fx-\d/),
    });
    await expect(put({ machine: "pc,viommu=intel" })).rejects.toThrow("to use Intel vIOMMU");
    await put({ machine: "q35", ostype: "win10" });
    expect(node.values(100)["machine"]).toBe("q35");
  });

  it("waits a while for its task when told to", async () => {
    const post = (params: object) => node.call(`POST ${VM}/config`, { vmid: 100, ...params }, "root");
    expect(await post({ name: "a", background_delay: 5 })).toBeNull();
    await expect(post({ scsi1: "local:100/vm-100-disk-9.raw", background_delay: 5 })).rejects.toThrow(
      "failed to update VM 100: ",
    );
    Object.assign(node.host, { clock: { ...node.host.clock, sleep: async () => undefined } });
    expect(await post({ scsi2: "local:0.01", background_delay: 1 })).toContain(":qmconfig:100:");
  });
});

describe("what a change meets in the configuration", () => {
  it("leaves alone what waits from before, however often something else is changed", async () => {
    await node.run(100);
    const post = (params: object) =>
      node.call(`POST ${VM}/config`, { vmid: 100, background_delay: 5, ...params }, "root");
    const problem = "hotplug problem - unable to change media type";
    await expect(put({ scsi0: "none,media=cdrom" })).rejects.toMatchObject({
      errors: { scsi0: `${problem}\n` },
    });
    // A task has but one line for it.
    await expect(post({ scsi0: "none,media=cdrom" })).rejects.toThrow(
      `failed to update VM 100: 400 Parameter verification failed. scsi0: ${problem}`,
    );
    expect(await put({ name: "other" })).toBeNull();
    expect(await put({ delete: "cores" })).toBeNull();
    expect(node.configs.get(100)).toMatchObject({
      values: { name: "other" },
      pending: { scsi0: "none,media=cdrom" },
    });
  });

  it("gives a template disks that can be cloned, and keeps those that were", async () => {
    await put({ template: true, scsi1: "local:0.01" });
    expect(node.values(100)["scsi1"]).toBe("local:100/base-100-disk-1.raw,size=10486K");
    node.put("images/101/vm-101-disk-0.qcow2");
    const base = "base volume '100/base-100-disk-1.raw' is still in use by linked clones";
    const plugin = node.host.storages.plugin("local");
    const list = plugin.list.bind(plugin);
    plugin.list = async (filter) => [
      ...(await list(filter)),
      { volname: "100/base-100-disk-1.raw/101/vm-101-disk-0.qcow2" } as never,
    ];
    await expect(put({ delete: "scsi1", force: true })).rejects.toMatchObject({
      errors: { scsi1: `unable to apply pending change scsi1 : ${base}\n` },
    });
    await put({ delete: "scsi1" });
    await expect(put({ delete: "unused0" })).rejects.toThrow(base);
    expect(node.values(100)["unused0"]).toBe("local:100/base-100-disk-1.raw");
    plugin.list = list;
    await put({ delete: "unused0" });
    expect(node.images(100)).toEqual(["vm-100-disk-0.qcow2"]);
  });

  it("goes on naming a disk that could not be removed", async () => {
    await put({ scsi1: "local:0.01" });
    const plugin = node.host.storages.plugin("local");
    const free = plugin.free.bind(plugin);
    plugin.free = async () => {
      throw new Error("no luck");
    };
    await expect(put({ delete: "scsi1", force: true })).rejects.toThrow("no luck");
    plugin.free = free;
    expect(node.values(100)).toMatchObject({ unused0: "local:100/vm-100-disk-1.raw" });
    expect(node.values(100)).not.toHaveProperty("scsi1");
  });

  it("keeps an unused disk whose place is taken by another", async () => {
    await put({ scsi1: "local:0.01" });
    await put({ delete: "scsi1" });
    const first = "local:100/vm-100-disk-1.raw";
    expect(node.values(100)["unused0"]).toBe(first);
    await put({ unused0: "local:100/vm-100-disk-7.raw" });
    const kept = Object.entries(node.values(100)).filter(([key]) => key.startsWith("unused"));
    expect(kept.map(([, volid]) => volid)).toContain(first);
    expect(node.images(100)).toContain("vm-100-disk-1.raw");
  });

  it("keeps the drives of a protected VM", async () => {
    await put({ protection: true, scsi1: "local:0.01" });
    const mode = " - protection mode enabled";
    await expect(put({ delete: "scsi0" })).rejects.toThrow(`can't remove drive 'scsi0'${mode}`);
    await expect(put({ delete: "scsi7,cores" })).resolves.toBeNull();
    await put({ protection: false });
    await put({ delete: "scsi1" });
    await put({ protection: true });
    const volid = "local:100/vm-100-disk-1.raw";
    await expect(put({ delete: "unused0" })).rejects.toThrow(`can't remove unused disk '${volid}'${mode}`);
    await node.configs.change(100, (config) => ({ ...config, values: { ...config.values, vmstate: volid } }));
    await expect(put({ delete: "vmstate" })).rejects.toThrow(`can't remove vmstate '${volid}'${mode}`);
  });

  it("keeps volumes that a snapshot names", async () => {
    const volid = String(node.values(100)["scsi0"]).split(",")[0] ?? "";
    await node.configs.change(100, (config) => ({
      ...config,
      snapshots: { s1: { scsi0: config.values["scsi0"] ?? "" } },
    }));
    const text = `unable to delete '${volid}' - volume is still in use (snapshot?)`;
    await expect(put({ delete: "scsi0", force: true })).rejects.toMatchObject({
      errors: { scsi0: `unable to apply pending change scsi0 : ${text}\n` },
    });
    await put({ delete: "scsi0" });
    await expect(put({ delete: "unused0" })).rejects.toThrow(text);
    expect(node.images(100)).toHaveLength(1);
  });

  it("keeps a disk that waits to be attached and no longer shall", async () => {
    await put({ hotplug: "0" });
    await node.run(100);
    await put({ scsi1: "local:0.01" });
    expect(node.configs.get(100).pending["scsi1"]).toContain("vm-100-disk-1");
    await put({ scsi1: "local:0.02" });
    expect(node.values(100)["unused0"]).toBe("local:100/vm-100-disk-1.raw");
    await put({ scsi1: "local:100/vm-100-disk-2.raw,backup=0" });
    expect(node.values(100)).not.toHaveProperty("unused1");
    await put({ revert: "scsi1" });
    expect(node.values(100)["unused1"]).toBe("local:100/vm-100-disk-2.raw");
    await put({ scsi2: "local:0.01" });
    await put({ delete: "scsi2" });
    expect(node.values(100)["unused2"]).toBe("local:100/vm-100-disk-3.raw");
    await put({ scsi2: "local:0.01" });
    await put({ delete: "scsi2", force: true });
    expect(node.values(100)).not.toHaveProperty("unused3");
    expect(node.images(100)).toHaveLength(4);
  });

  it("changes the order of devices at the next start of a guest that runs", async () => {
    await put({ bootdisk: "scsi0", boot: "order=scsi0" });
    await put({ hotplug: "0" });
    expect(node.values(100)).toMatchObject({ boot: "order=scsi0" });
    await node.run(100);
    await put({ bootdisk: "scsi0", ide0: "none,media=cdrom" });
    await put({ ide1: "none,media=cdrom" });
    expect(node.configs.get(100)).toMatchObject({
      values: { boot: "order=scsi0" },
      pending: { boot: "order=scsi0;ide0;ide1" },
    });
    await put({ delete: "ide0" });
    expect(node.configs.get(100).pending["boot"]).toBe("order=scsi0;ide1");
    await node.guests.get("100")?.stop();
    await put({ name: "x" });
    expect(node.values(100)).toMatchObject({ boot: "order=scsi0;ide1", bootdisk: "scsi0" });
    await put({ boot: "order=ide1" });
    expect(node.values(100)).not.toHaveProperty("bootdisk");
  });

  it("lets an order of devices be that names what is not there, until somebody changes it", async () => {
    const made = { vmid: 101, boot: "order=scsi0;net0", scsi0: "local:0.01" };
    expect((await node.task(`POST ${QEMU}`, made, "root")).exitStatus).toBe("OK");
    expect(await put({ vmid: 101, cores: 2 })).toBeNull();
    await expect(put({ vmid: 101, boot: "order=net0" })).rejects.toThrow(
      "invalid bootorder: device 'net0' does not exist'",
    );
    expect(await put({ vmid: 101, boot: "order=net0", net0: "virtio" })).toBeNull();
    await expect(put({ vmid: 101, boot: "order=net0", delete: "net0" })).rejects.toThrow("invalid bootorder");
  });

  it("keeps the version of a TPM", async () => {
    await put({ tpmstate0: "local:1,version=v2.0" });
    const volid = String(node.values(100)["tpmstate0"]).split(",")[0] ?? "";
    await expect(put({ tpmstate0: volid })).rejects.toThrow("cannot change TPM state version after creation");
    expect(await put({ tpmstate0: `${volid},version=v2.0` })).toBeNull();
  });

  it("throws away what a suspended VM would go on from", async () => {
    node.put("images/100/vm-100-state-suspend.raw");
    const vmstate = "local:100/vm-100-state-suspend.raw";
    await node.configs.change(100, (config) => ({
      ...config,
      values: { ...config.values, lock: "suspended", vmstate, runningmachine: "pc-i440fx-7.2" },
    }));
    await expect(put({ name: "x" })).rejects.toThrow("VM is locked (suspended)");
    expect(await put({ delete: "vmstate" })).toBeNull();
    for (const key of ["lock", "vmstate", "runningmachine"]) expect(node.values(100)).not.toHaveProperty(key);
    expect(node.images(100)).toEqual(["vm-100-disk-0.qcow2"]);
  });
});

describe("tags", () => {
  const options = (value: Record<string, string>) =>
    node.records.transact((tx) => tx.put(clusterCollection, "options", value));

  it("are stored as the datacenter wants them", async () => {
    await put({ tags: "B,a b" });
    expect(node.values(100)["tags"]).toBe("a;b");
    await options({ "tag-style": "case-sensitive=1,ordering=config" });
    await put({ tags: "B;a" });
    expect(node.values(100)["tags"]).toBe("B;a");
    expect((await node.engine.wait(String(await create({ tags: "z;y;z" })))).exitStatus).toBe("OK");
    expect(node.values(101)["tags"]).toBe("z;y");
  });

  it("that somebody registered are not for everybody", async () => {
    await options({ "registered-tags": "prod" });
    await put({ tags: "prod" });
    const mine = { "/vms/100": ["VM.Config.Options"], "/vms/101": ["VM.Allocate", "VM.Config.Options"] };
    const refusal = "Permission check failed (/, Sys.Modify for modifying tag 'prod')";
    await expect(put({ delete: "tags" }, mine)).rejects.toThrow(refusal);
    await expect(create({ tags: "prod" }, mine)).rejects.toThrow(refusal);
    expect(await put({ tags: "prod;own" }, mine)).toBeNull();
    await options({ "user-tag-access": "user-allow=existing" });
    await expect(put({ tags: "new" }, mine)).rejects.toThrow("modifying tag");
    const seeing = { ...mine, "/vms/100": ["VM.Config.Options", "VM.Audit"] };
    expect(await put({ tags: "own" }, seeing)).toBeNull();
  });
});

describe("a new VM", () => {
  it("needs the rights to start it, to watch over it, and to space that is named", async () => {
    const mine = { "/vms/101": ["VM.Allocate"] };
    await expect(create({ start: true }, mine)).rejects.toThrow("/vms/101, VM.PowerMgmt");
    await expect(create({ "ha-managed": true }, mine)).rejects.toThrow("/, Sys.Console");
    await expect(create({ storage: "local" }, mine)).rejects.toThrow(
      "/storage/local, Datastore.AllocateSpace",
    );
    const made = await node.engine.wait(String(await create({ "ha-managed": true })));
    expect(made.exitStatus).toBe("WARNINGS: 1");
  });

  it("runs after an import that it shall run with", async () => {
    const scsi0 = `local:0,import-from=${String(node.values(100)["scsi0"]).split(",")[0]}`;
    const made = await node.engine.wait(String(await create({ scsi0, "live-restore": true })));
    expect(made.exitStatus).toBe("OK");
    expect(node.guests.get("101")).toBeDefined();
  });

  it("that cannot be made says that it was the creation which failed", async () => {
    const failed = await node.engine.wait(String(await create({ scsi0: "local:101/vm-101-disk-7.raw" })));
    expect(failed.exitStatus).toMatch(/^unable to create VM 101 - .*does not exist/);
    const machine = await node.engine.wait(String(await create({ machine: "pc,viommu=intel" })));
    expect(machine.exitStatus).toMatch(/^unable to create VM 101 - to use Intel vIOMMU/);
    expect(node.configs.has(101)).toBe(false);
  });
});
