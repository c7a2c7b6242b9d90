import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { StorageNode } from "../../../testing/storage-world.ts";

const NODE = "/nodes/{node}/storage" as const;
const STORAGE = "/nodes/{node}/storage/{storage}" as const;
const VOLUME = "/nodes/{node}/storage/{storage}/content/{volume}" as const;

let node: StorageNode;
beforeEach(async () => {
  node = new StorageNode();
  await node.operations.engine.start();
});
afterEach(async () => {
  await node.operations.engine.stop();
  node.remove();
});
const names = (rows: unknown): unknown[] => (rows as { storage: string }[]).map((row) => row.storage);
const volids = (rows: unknown): unknown[] => (rows as { volid: string }[]).map((row) => row.volid);

describe("storages of a node", () => {
  it("are listed with their space, by content, rights and place", async () => {
    node.define("isos", { content: "iso" });
    node.define("off", { disable: true, content: "iso" });
    node.define("far", { nodes: "n2", content: "iso" });
    const rows = (await node.call(`GET ${NODE}`, { format: true })) as Record<string, unknown>[];
    expect(rows[0]).toMatchObject({
      storage: "local",
      type: "dir",
      active: true,
      enabled: true,
      shared: false,
      formats: { default: "raw", supported: ["qcow2", "raw", "subvol", "vmdk"] },
    });
    expect(Number(rows[0]?.["used_fraction"])).toBeGreaterThan(0);
    expect(names(rows)).toEqual(["local", "isos", "off", "far"]);
    expect(names(await node.call(`GET ${NODE}`, { enabled: true }))).toEqual(["local", "isos", "far"]);
    expect(names(await node.call(`GET ${NODE}`, { content: "iso" }))).toEqual(["local", "isos"]);
    expect(names(await node.call(`GET ${NODE}`, { content: "backup" }))).toEqual(["local"]);
    node.define("both", { shared: true, content: "iso" });
    node.define("one", { shared: true, content: "iso", nodes: "n1" });
    expect(names(await node.call(`GET ${NODE}`, { target: "n2" }))).toEqual(["both"]);
    for (const target of ["n1", "localhost"])
      expect(names(await node.call(`GET ${NODE}`, { target }))).toContain("local");
    expect(names(await node.call(`GET ${NODE}`, { storage: "isos" }))).toEqual(["isos"]);
    const rights = { "/storage/isos": ["Datastore.Audit"] };
    expect(names(await node.call(`GET ${NODE}`, {}, rights))).toEqual(["isos"]);
    expect(await node.call(`GET ${NODE}`, { storage: "local" }, rights)).toEqual([]);
    expect(await node.call(`GET ${NODE}`, { storage: "off", enabled: true })).toEqual([]);
    for (const params of [
      { storage: "none" },
      { storage: "isos", content: "backup" },
      { storage: "off", content: "iso" },
    ]) {
      await expect(node.call(`GET ${NODE}`, params)).rejects.toMatchObject({
        errors: { storage: "No such storage." },
      });
    }
  });

  it("tell their status, also when they cannot be used", async () => {
    expect(await node.call(`GET ${STORAGE}/status`, { storage: "local" })).toMatchObject({ active: true });
    await expect(node.call(`GET ${STORAGE}/status`, { storage: "none" })).rejects.toMatchObject({
      errors: { storage: "No such storage." },
    });
    node.define("gone", { mkdir: false });
    expect(await node.call(`GET ${STORAGE}/status`, { storage: "gone" })).toMatchObject({
      active: false,
      total: 0,
    });
    expect(node.problems.join()).toContain("gone: unable to activate storage 'gone'");
    expect(await node.call(`GET ${STORAGE}/identity`, { storage: "local" })).toMatchObject({ type: "dir" });
    expect(await node.call(`GET ${STORAGE}/rrddata`, { storage: "local", timeframe: "hour" })).toEqual([
      { time: 5 },
    ]);
    await node.storages.refresh();
    expect(node.storages.runtimes().map(({ storage, active }) => [storage, active])).toEqual([
      ["local", true],
      ["gone", false],
    ]);
    node.definitions = node.definitions.slice(0, 1);
    await node.storages.refresh();
    expect(node.storages.runtimes()).toHaveLength(1);
  });

  it("refuse what is disabled, elsewhere, unknown or of a type without a plugin", async () => {
    node.define("off", { disable: true });
    node.define("far", { nodes: "n2" });
    node.definitions.push({ storage: "zfs1", type: "zfspool", options: { content: "iso" } });
    const content = (storage: string): Promise<unknown> => node.call(`GET ${STORAGE}/content`, { storage });
    await expect(content("off")).rejects.toThrow("storage 'off' is disabled");
    await expect(content("far")).rejects.toThrow("storage 'far' is not available on node 'n1'");
    await expect(content("none")).rejects.toThrow("storage 'none' does not exist");
    await expect(content("zfs1")).rejects.toThrow("type 'zfspool', which this version does not support");
    expect(await node.call(`GET ${STORAGE}/status`, { storage: "zfs1" })).toMatchObject({ active: false });
    expect(() => node.storages.find("local", "images")).not.toThrow();
    expect(() => node.storages.find("far", "iso")).toThrow("not available");
  });
});

describe("content of a storage", () => {
  it("is allocated, listed, shown and removed", async () => {
    const volid = await node.call(`POST ${STORAGE}/content`, {
      storage: "local",
      vmid: 9999,
      filename: "vm-9999-pvc-a.raw",
      size: "1024",
    });
    expect(volid).toBe("local:9999/vm-9999-pvc-a.raw");
    node.put("template/iso/a.iso");
    node.put("images/200/vm-200-disk-0.raw");
    expect(await node.call(`GET ${STORAGE}/content`, { storage: "local", content: "images" })).toEqual([
      {
        volid,
        size: 1024 * 1024,
        used: expect.any(Number),
        ctime: expect.any(Number),
        parent: null,
        format: "raw",
        vmid: 9999,
        content: "images",
      },
    ]);
    expect(await node.call(`GET ${STORAGE}/content`, { storage: "local", content: "iso" })).toEqual([
      { volid: "local:iso/a.iso", format: "iso", size: 1, ctime: expect.any(Number), content: "iso" },
    ]);
    expect(
      volids(await node.call(`GET ${STORAGE}/content`, { storage: "local", content: "rootdir" })),
    ).toEqual(["local:200/vm-200-disk-0.raw"]);
    expect(volids(await node.call(`GET ${STORAGE}/content`, { storage: "local", vmid: 9999 }))).toEqual([
      volid,
    ]);
    expect(await node.call(`GET ${STORAGE}/content`, { storage: "local", content: "what" })).toEqual([]);
    expect(await node.call(`GET ${STORAGE}/content`, { storage: "local", content: "none" })).toEqual([]);
    const shown = await node.call(`GET ${VOLUME}`, { storage: "local", volume: "9999/vm-9999-pvc-a.raw" });
    expect(shown).toMatchObject({
      format: "raw",
      size: 1024 * 1024,
      path: expect.stringContaining("/images/9999/"),
    });
    const removed = await node.task(`DELETE ${VOLUME}`, { storage: "local", volume: volid });
    expect(removed).toMatchObject({ state: "done", type: "imgdel" });
    expect(removed.id).toContain(":9999@local:");
    await expect(node.call(`GET ${VOLUME}`, { volume: volid })).rejects.toThrow(
      `volume_size_info on '${String(volid)}' failed`,
    );
    node.put("snippets/empty.yml", "");
    await expect(node.call(`GET ${VOLUME}`, { volume: "local:snippets/empty.yml" })).rejects.toThrow(
      "volume_size_info on 'local:snippets/empty.yml' failed",
    );
  });

  it("is listed in the order of its names, whatever their case", async () => {
    for (const name of ["b.iso", "C.iso", "a.img"]) node.put(`template/iso/${name}`);
    node.put("dump/vzdump-qemu-100-2024_01_02-03_04_05.vma");
    expect(volids(await node.call(`GET ${STORAGE}/content`, { storage: "local" }))).toEqual([
      "local:backup/vzdump-qemu-100-2024_01_02-03_04_05.vma",
      "local:iso/a.img",
      "local:iso/b.iso",
      "local:iso/C.iso",
    ]);
  });

  it("of guests is shown only by storages for guests of that kind", async () => {
    node.define("disks", { content: "rootdir" });
    node.put("../disks/images/100/vm-100-disk-0.raw");
    node.put("../disks/images/200/vm-200-disk-0.raw");
    expect(volids(await node.call(`GET ${STORAGE}/content`, { storage: "disks" }))).toEqual([
      "disks:200/vm-200-disk-0.raw",
    ]);
  });

  it("is removed within the delay, or says which task still does it", async () => {
    node.put("template/iso/a.iso");
    const gone = { storage: "local", volume: "iso/a.iso", delay: 5 };
    expect(await node.call(`DELETE ${VOLUME}`, gone)).toBeNull();
    expect(await node.call(`DELETE ${VOLUME}`, gone)).toBeNull();
    node.put("dump/vzdump-qemu-100-2024_01_02-03_04_05.vma");
    node.put("dump/vzdump-qemu-100-2024_01_02-03_04_05.vma.protected");
    const volume = "backup/vzdump-qemu-100-2024_01_02-03_04_05.vma";
    await expect(node.call(`DELETE ${VOLUME}`, { ...gone, volume })).rejects.toThrow(
      "cannot remove protected volume",
    );
  });

  it("is shown only to those who may use it", async () => {
    node.put("template/iso/a.iso");
    node.put("images/100/vm-100-disk-0.raw");
    const rights = { "/storage/local": ["Datastore.Audit"] };
    expect(volids(await node.call(`GET ${STORAGE}/content`, { storage: "local" }, rights))).toEqual([
      "local:iso/a.iso",
    ]);
    const disk = { storage: "local", volume: "100/vm-100-disk-0.raw" };
    await expect(node.call(`GET ${VOLUME}`, disk, rights)).rejects.toThrow("(/vms/100, VM.Config.Disk)");
    await expect(node.call(`DELETE ${VOLUME}`, disk, rights)).rejects.toThrow(
      "(/storage/local, Datastore.Allocate)",
    );
  });

  it("is refused with PVE's words when asked for oddly", async () => {
    const alloc = { storage: "local", vmid: 100, filename: "vm-100-disk-0.raw", size: "1M" };
    const post = (change: object): Promise<unknown> =>
      node.call(`POST ${STORAGE}/content`, { ...alloc, ...change });
    await expect(post({ format: "qcow2" })).rejects.toMatchObject({
      errors: { format: "different storage formats (qcow2 != raw)" },
    });
    await expect(post({ size: "1T" })).rejects.toMatchObject({
      errors: { size: "unable to parse size '1T'" },
    });
    const subvol = { filename: "subvol-100-disk-0.subvol", size: "0" };
    await expect(post(subvol)).rejects.toThrow(
      "illegal name 'subvol-100-disk-0.subvol' - wrong extension for format ('subvol != 'raw')",
    );
    expect(await post({ ...subvol, format: "subvol" })).toBe("local:100/subvol-100-disk-0.subvol");
    expect(await post({ filename: "" })).toBe("local:100/vm-100-disk-1.raw");
    await expect(post({ filename: "vm-100-disk-0" })).rejects.toThrow("unable to parse volume filename");
    await expect(post({ filename: "base-100-disk-0.raw" })).rejects.toThrow(
      "illegal name 'base-100-disk-0.raw' - should be 'vm-100-*'",
    );
    await expect(node.call(`GET ${VOLUME}`, { volume: "iso/a.iso" })).rejects.toMatchObject({
      errors: { volume: "no storage specified - incomplete volume ID" },
    });
    await expect(
      node.call(`GET ${VOLUME}`, { storage: "local", volume: "other:iso/a.iso" }),
    ).rejects.toMatchObject({
      errors: { volume: "storage ID mismatch (other != local)\n" },
    });
    await expect(node.call(`GET ${VOLUME}`, { storage: "local", volume: ":x" })).rejects.toMatchObject({
      errors: { volume: "unable to parse volume ID ':x'\n" },
    });
  });

  it("keeps notes and protects a limited number of backups", async () => {
    node.define("limited", { content: "backup", "max-protected-backups": 1 });
    const archives = ["vzdump-qemu-100-2024_01_02-03_04_05.vma", "vzdump-qemu-100-2024_01_03-03_04_05.vma"];
    for (const archive of archives) node.put(join("../limited/dump", archive));
    const put = (archive: string | undefined, change: object): Promise<unknown> =>
      node.call(`PUT ${VOLUME}`, { storage: "limited", volume: `backup/${archive}`, ...change });
    expect(await put(archives[0], { notes: "first", protected: true })).toBeNull();
    await put(archives[0], { protected: true });
    expect(
      await node.call(`GET ${VOLUME}`, { storage: "limited", volume: `backup/${archives[0]}` }),
    ).toMatchObject({
      notes: "first",
      protected: true,
      format: "raw",
    });
    await expect(put(archives[1], { protected: true })).rejects.toThrow("limited to 1 on storage 'limited'");
    node.put("../limited/dump/vzdump-lxc-100-2024_01_02-03_04_05.tar");
    expect(await put("vzdump-lxc-100-2024_01_02-03_04_05.tar", { protected: true })).toBeNull();
    expect(await put(archives[0], { protected: false })).toBeNull();
    expect(
      await node.call(`GET ${VOLUME}`, { storage: "limited", volume: `backup/${archives[1]}` }),
    ).toMatchObject({ notes: "", protected: false });
  });

  it("protects five backups of a guest for those who may not allocate the storage", async () => {
    const rights = { "/storage/local": ["Datastore.AllocateSpace"], "/vms/100": ["VM.Backup"] };
    const protect = (day: number): Promise<unknown> => {
      node.put(`dump/vzdump-qemu-100-2024_01_0${day}-00_00_00.vma`);
      const volume = `backup/vzdump-qemu-100-2024_01_0${day}-00_00_00.vma`;
      return node.call(`PUT ${VOLUME}`, { storage: "local", volume, protected: true }, rights);
    };
    for (const day of [1, 2, 3, 4, 5]) expect(await protect(day)).toBeNull();
    await expect(protect(6)).rejects.toThrow("limited to 5 on storage 'local'");
  });

  it("is copied to another name, format or storage", async () => {
    await node.call(`POST ${STORAGE}/content`, {
      storage: "local",
      vmid: 1,
      filename: "vm-1-a.raw",
      size: "64",
    });
    const copy = (target: string, volume = "1/vm-1-a.raw", more = {}): Promise<unknown> =>
      node.call(`POST ${VOLUME}`, { storage: "local", volume, target, ...more });
    const wait = async (upid: unknown): Promise<string | undefined> =>
      (await node.operations.engine.wait(String(upid))).exitStatus;
    expect(await wait(await copy("2/vm-2-b.qcow2"))).toBe("OK");
    expect(await wait(await copy("2/vm-2-b.qcow2"))).toContain("already exists");
    expect(await node.call(`GET ${VOLUME}`, { storage: "local", volume: "2/vm-2-b.qcow2" })).toMatchObject({
      size: 65536,
      format: "qcow2",
    });
    node.put("template/iso/a.iso", "iso");
    expect(await wait(await copy("iso/b.iso", "iso/a.iso"))).toBe("OK");
    expect(readFileSync(join(node.root, "local/template/iso/b.iso"), "utf8")).toBe("iso");
    expect(await wait(await copy("2/base-2-b.raw"))).toContain("illegal name 'base-2-b.raw'");
    symlinkSync("/etc/passwd", join(node.root, "local/template/iso/link.iso"));
    expect(await wait(await copy("iso/c.iso", "iso/link.iso"))).toContain("is a link to /etc/passwd");
    expect(existsSync(join(node.root, "local/template/iso/c.iso"))).toBe(false);
    await expect(copy("2/x.raw", undefined, { target_node: "n2" })).rejects.toThrow("another node ('n2')");
  });
});

describe("uploads", () => {
  const upload = (content: string, filename: string, body: string, more = {}): Promise<unknown> => {
    const tmpfilename = join(node.uploads, "upload-1");
    writeFileSync(tmpfilename, body);
    return node.call(`POST ${STORAGE}/upload`, { storage: "local", content, filename, tmpfilename, ...more });
  };

  it("become volumes, under harmless names, over older ones", async () => {
    for (const body of ["old", "new"]) {
      const ended = await node.operations.engine.wait(String(await upload("iso", "my disk.iso", body)));
      expect(ended).toMatchObject({ state: "done", type: "imgcopy" });
      expect(ended.id).toContain(":imgcopy::joe@pve");
    }
    expect(readFileSync(join(node.root, "local/template/iso/my_disk.iso"), "utf8")).toBe("new");
    expect(readdirSync(node.uploads)).toEqual([]);
  });

  it.each([
    ["iso", "a.txt", "wrong file extension"],
    ["iso", ".iso.iso", "wrong file extension"],
    ["vztmpl", "a.zip", "wrong file extension"],
    ["import", "a.iso", "invalid filename or wrong extension"],
    ["import", "a.QCOW2", "invalid filename or wrong extension"],
    ["import", "a.ovf", "invalid filename or wrong extension"],
  ])("of %s named %s are refused and not kept", async (content, filename, text) => {
    await expect(upload(content, filename, "x")).rejects.toMatchObject({ errors: { filename: text } });
    expect(readdirSync(node.uploads)).toEqual([]);
  });

  it("end as failed tasks when the checksum or the image is wrong", async () => {
    const checksum = { checksum: "AB", "checksum-algorithm": "md5" };
    const wrong = await node.operations.engine.wait(String(await upload("iso", "a.iso", "x", checksum)));
    expect(wrong.exitStatus).toBe("checksum mismatch: got '9dd4e461268c8034f5c8564e155c67a6' != expect 'AB'");
    const good = { checksum: "9DD4E461268C8034F5C8564E155C67A6", "checksum-algorithm": "md5" };
    expect(
      (await node.operations.engine.wait(String(await upload("iso", "a.iso", "x", good)))).exitStatus,
    ).toBe("OK");
    const bad = await node.operations.engine.wait(String(await upload("import", "a.qcow2", "no image")));
    expect(bad.exitStatus).toBe("the image is refused: Image is not in qcow2 format");
    expect(readdirSync(node.uploads)).toEqual([]);
    expect(existsSync(join(node.root, "local/import/a.qcow2"))).toBe(false);
  });

  it("are taken only from the node's own directory, for storages that may hold them", async () => {
    const params = { storage: "local", content: "iso", filename: "a.iso" };
    const elsewhere = [
      "/etc/passwd",
      join(node.uploads, "../x"),
      ...["", "..", ".", "a/b"].map((name) => `${node.uploads}/${name}`),
    ];
    for (const tmpfilename of [undefined, ...elsewhere]) {
      await expect(node.call(`POST ${STORAGE}/upload`, { ...params, tmpfilename })).rejects.toThrow(
        "missing temporary file name",
      );
    }
    node.define("images", { content: "images" });
    await expect(upload("iso", "a.iso", "x", { storage: "images" })).rejects.toThrow(
      "storage 'images' does not support 'iso' content",
    );
  });
});

describe("downloads", () => {
  const download = (params: object): Promise<unknown> =>
    node.call(`POST ${STORAGE}/download-url`, {
      storage: "local",
      content: "iso",
      filename: "a.iso",
      url: "http://127.0.0.1:9/a.iso",
      ...params,
    });
  const ended = async (params: object): Promise<string | undefined> =>
    (await node.operations.engine.wait(String(await download(params)))).exitStatus;

  it("never override a file, and need none that is already there", async () => {
    node.put("template/iso/a.iso", "x");
    const path = join(node.root, "local/template/iso/a.iso");
    expect(await ended({})).toBe(`refusing to override existing file '${path}'`);
    const sum = { checksum: "9DD4E461268C8034F5C8564E155C67A6", "checksum-algorithm": "md5" };
    expect(await ended(sum)).toBe("OK");
    expect(await ended({ ...sum, checksum: "00" })).toBe(
      "checksum mismatch: got '9dd4e461268c8034f5c8564e155c67a6' != expect '00', aborting",
    );
  });

  it("unpack media alone, by what is known", async () => {
    const packed = { compression: "gz" };
    expect(await ended({ ...packed, content: "import", filename: "a.qcow2" })).toBe(
      "decompression not supported for import",
    );
    expect(await ended({ ...packed, content: "vztmpl", filename: "a.tar.gz" })).toBe(
      "decompression not supported for vztmpl",
    );
    expect(await ended({ compression: "xz" })).toBe("no decompression method found");
  });

  it("need a storage for them, and a harmless address", async () => {
    node.define("images", { content: "images" });
    await expect(download({ storage: "images" })).rejects.toMatchObject({
      message: "storage 'images' is not configured for content-type 'iso'",
      pveStatus: 500,
    });
    await expect(download({ filename: "a.txt" })).rejects.toMatchObject({
      errors: { filename: "wrong file extension" },
    });
    await expect(download({ url: "http://u:p@127.0.0.1/a.iso" })).rejects.toMatchObject({
      errors: { url: expect.stringContaining("not accepted") },
    });
  });
});

describe("import metadata", () => {
  const ovf =
    '<Envelope><References><File ovf:id="f" ovf:href="d.vmdk"/></References><DiskSection>' +
    '<Disk ovf:diskId="d" ovf:fileRef="f" ovf:capacity="1048576"/></DiskSection><VirtualSystem><Name>vm1</Name>' +
    "<Item><InstanceID>1</InstanceID><ResourceType>20</ResourceType></Item><Item><ResourceType>17</ResourceType>" +
    "<Parent>1</Parent><AddressOnParent>0</AddressOnParent><HostResource>ovf:/disk/d</HostResource></Item>" +
    '<Config key="firmware" value="efi"/></VirtualSystem></Envelope>';

  it("tells what an OVF, alone or in an OVA, would become", async () => {
    node.put("import/vm.ovf", ovf);
    await exec("tar", [
      "--format=ustar",
      "-cf",
      join(node.root, "local/import/vm.ova"),
      "-C",
      join(node.root, "local/import"),
      "vm.ovf",
    ]);
    const ask = (volume: string): Promise<unknown> =>
      node.call(`GET ${STORAGE}/import-metadata`, { storage: "local", volume });
    expect(await ask("local:import/vm.ova")).toEqual({
      type: "vm",
      source: "import/vm.ova",
      "create-args": { name: "vm1", ostype: "other", bios: "ovmf", boot: "order=sata0" },
      disks: { sata0: { volid: "local:import/vm.ova/d.vmdk", size: 1048576 }, efidisk0: 1 },
      net: {},
      warnings: [{ type: "ova-needs-extracting" }, { type: "efi-state-lost", key: "bios", value: "ovmf" }],
    });
    await expect(ask("import/vm.ovf")).rejects.toThrow(
      `error parsing d.vmdk, file seems not to exist at ${join(node.root, "local/import/d.vmdk")}`,
    );
    node.put("import/raw.ovf", ovf.replace("d.vmdk", "d.raw"));
    node.put("import/d.raw", Buffer.alloc(4096));
    expect(await ask("import/raw.ovf")).toMatchObject({
      disks: { sata0: { volid: "local:import/d.raw", size: 4096 } },
      warnings: [{ type: "efi-state-lost" }],
    });
    await expect(ask("import/d.vmdk")).rejects.toThrow("invalid format");
    await expect(ask("iso/a.iso")).rejects.toThrow("invalid content type 'iso'");
    await expect(ask("import/none.ovf")).rejects.toThrow("does not exist");
    node.put("import/big.ovf", Buffer.alloc(5_000_000));
    await expect(ask("import/big.ovf")).rejects.toThrow("too many");
  });
});

describe("pruning", () => {
  it("shows and does what the storage or the caller wants to keep", async () => {
    const archives = ["2024_01_01", "2024_01_02", "2024_01_03"].map(
      (day) => `vzdump-qemu-100-${day}-00_00_00.vma`,
    );
    for (const archive of archives) node.put(join("dump", archive));
    node.put("dump/mine.tar");
    const params = { storage: "local", "prune-backups": "keep-last=1" };
    const rows = (await node.call(`GET ${STORAGE}/prunebackups`, params)) as {
      mark: string;
      volid: string;
    }[];
    expect(
      Object.fromEntries(rows.map(({ volid, mark }) => [volid.slice("local:backup/".length), mark])),
    ).toEqual({
      [archives[0] ?? ""]: "remove",
      [archives[1] ?? ""]: "remove",
      [archives[2] ?? ""]: "keep",
      "mine.tar": "renamed",
    });
    const rights = { "/storage/local": ["Datastore.AllocateSpace"], "/vms/100": ["VM.Backup"] };
    await expect(node.call(`DELETE ${STORAGE}/prunebackups`, params, rights)).rejects.toThrow(
      "Datastore.Allocate)",
    );
    const pruned = await node.task(
      `DELETE ${STORAGE}/prunebackups`,
      { ...params, vmid: 100, type: "qemu" },
      rights,
    );
    expect(pruned).toMatchObject({ state: "done", type: "prunebackups" });
    expect(readdirSync(join(node.root, "local/dump")).sort()).toEqual(["mine.tar", archives[2]]);
  });

  it("needs something to go by, and a storage for backups", async () => {
    await expect(node.call(`GET ${STORAGE}/prunebackups`, { storage: "local" })).rejects.toThrow(
      "no prune-backups options configured for storage 'local'",
    );
    node.define("isos", { content: "iso" });
    await expect(node.call(`GET ${STORAGE}/prunebackups`, { storage: "isos" })).rejects.toThrow(
      "storage 'isos' does not support backups",
    );
    const pruned = await node.task(`DELETE ${STORAGE}/prunebackups`, { storage: "local" });
    expect(pruned.exitStatus).toBe("no prune-backups options configured for storage 'local'");
    const refused = await node.task(`DELETE ${STORAGE}/prunebackups`, { storage: "isos" });
    expect(refused.exitStatus).toBe("storage 'isos' does not support backups");
    node.define("own", { content: "backup", "prune-backups": "keep-all=1" });
    expect(await node.call(`GET ${STORAGE}/prunebackups`, { storage: "own" })).toEqual([]);
  });
});
