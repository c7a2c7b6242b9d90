import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fileNode } from "@gpve/domain/storage/block-node.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { newStorageDefinition } from "@gpve/domain/storage/definition.ts";
import { exec, type Exec } from "@gpve/kit/exec.ts";
import { readImage, writeImage } from "../../../testing/qemu-io.ts";
import { storageConformance } from "../../../testing/storage-conformance.ts";
import { DirPlugin } from "./dir-plugin.ts";
import type { DirPluginDeps } from "./dir-plugin-deps.ts";
import { plainPlugins } from "../../../testing/plain-plugins.ts";

const ALL = "images,rootdir,vztmpl,iso,backup,snippets,import";

function pluginAt(
  root: string,
  options: Record<string, string | boolean> = {},
  deps: Partial<DirPluginDeps> = {},
): DirPlugin {
  const definition = newStorageDefinition("s", "dir", { path: root, content: ALL, ...options });
  return new DirPlugin({ ...plainPlugins(deps.exec), definition, ...deps });
}

storageConformance("dir", async () => {
  const root = mkdtempSync(join(tmpdir(), "gpve-dir-"));
  const plugin = pluginAt(root);
  const formatOf = (volname: string): string => plugin.parse(volname).format;
  return {
    plugin,
    formats: ["qcow2", "raw", "vmdk"],
    write: (volname, offset, bytes) => writeImage(plugin.path(volname), formatOf(volname), offset, bytes),
    read: (volname, offset, length) => readImage(plugin.path(volname), formatOf(volname), offset, length),
    close: async () => rmSync(root, { recursive: true, force: true }),
  };
});

describe("the directory storage", () => {
  let root = "";
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "gpve-dir-"));
  });
  afterEach(() => {
    rmSync(root, { recursive: true, force: true });
  });
  const put = (name: string, text = "x"): void => {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  };

  it("makes its directories, unless told not to", async () => {
    await pluginAt(root).activate();
    expect(existsSync(join(root, "template/iso"))).toBe(true);
    const bare = join(root, "bare");
    await expect(pluginAt(bare, { mkdir: false }).activate()).rejects.toThrow(
      `unable to activate storage 's' - directory '${bare}' does not exist or is unreachable`,
    );
    mkdirSync(bare);
    await pluginAt(bare, { "create-subdirs": false }).activate();
    expect(existsSync(join(bare, "images"))).toBe(false);
    await pluginAt(bare, { "create-subdirs": true, mkdir: false }).activate();
    expect(existsSync(join(bare, "images"))).toBe(false);
    const other = join(root, "other");
    await pluginAt(other, { "create-base-path": true, mkdir: false }).activate();
    expect(existsSync(other)).toBe(true);
    const guests = join(root, "guests");
    await pluginAt(guests, { content: "rootdir" }).activate();
    expect(readdirSync(guests).sort()).toEqual(["dump", "private"]);
    await pluginAt(root).deactivate();
  });

  it("keeps kinds of content apart", async () => {
    const same = { "content-dirs": "iso=media,snippets=more" };
    await pluginAt(root, same).activate();
    rmSync(join(root, "more"), { recursive: true });
    symlinkSync(join(root, "media"), join(root, "more"));
    await expect(pluginAt(root, same).activate()).rejects.toThrow(
      `storage 's' uses directory ${join(root, "media")} for multiple content types`,
    );
  });

  it("does not fill the disk below a mount point that is not mounted", async () => {
    const mounts = async (): Promise<string> => "1 2 0:1 / /mnt/there rw - ext4 x rw\n";
    await expect(pluginAt(root, { is_mountpoint: "yes" }, { mounts }).activate()).rejects.toThrow(
      `directory is expected to be a mount point but is not mounted: '${root}'`,
    );
    await pluginAt(root, { is_mountpoint: "/mnt/there" }, { mounts }).activate();
    await pluginAt(root, { is_mountpoint: "no" }).activate();
    symlinkSync(root, `${root}-link`);
    const linked = async (): Promise<string> => `1 2 0:1 / ${root} rw - ext4 x rw\n`;
    await pluginAt(root, { is_mountpoint: `${root}-link` }, { mounts: linked }).activate();
    rmSync(`${root}-link`);
  });

  it("lists every kind of content as PVE shows it", async () => {
    const plugin = pluginAt(root, {}, { backupTime: () => 42 });
    await plugin.activate();
    put("template/iso/a.iso", "12345");
    put("template/iso/readme.txt");
    put("template/iso/.hidden.iso");
    put("template/cache/deb.tar.zst");
    put("snippets/user.yml");
    put("import/disk.qcow2");
    put("import/bad name?.qcow2");
    const archive = "dump/vzdump-qemu-100-2024_01_02-03_04_05.vma.zst";
    put(archive);
    put(`${archive}.notes`, "first line\nsecond");
    put(`${archive}.protected`, "");
    put("dump/vzdump-qemu-100-2024_01_03-03_04_05.gpvi.zst");
    put(
      "dump/vzdump-qemu-100-2024_01_03-03_04_05.gpvi.zst.parent",
      "vzdump-qemu-100-2024_01_02-03_04_05.vma.zst\n",
    );
    mkdirSync(join(root, "template/iso/dir.iso"));
    const rows = await plugin.list();
    expect(rows.map(({ volname, format, content }) => [volname, format, content])).toEqual(
      expect.arrayContaining([
        ["iso/a.iso", "iso", "iso"],
        ["vztmpl/deb.tar.zst", "tzst", "vztmpl"],
        ["snippets/user.yml", "snippet", "snippets"],
        ["import/disk.qcow2", "qcow2", "import"],
        ["backup/vzdump-qemu-100-2024_01_02-03_04_05.vma.zst", "vma.zst", "backup"],
        ["backup/vzdump-qemu-100-2024_01_03-03_04_05.gpvi.zst", "gpvi", "backup"],
      ]),
    );
    expect(rows).toHaveLength(6);
    expect(rows.find(({ content }) => content === "iso")?.size).toBe(5);
    const [full, increment] = await plugin.list({ content: ["backup"], vmid: 100 });
    expect(full).toMatchObject({
      vmid: 100,
      ctime: 42,
      notes: "first line",
      protected: true,
      subtype: "qemu",
    });
    expect(increment?.parent).toBe("backup/vzdump-qemu-100-2024_01_02-03_04_05.vma.zst");
    expect(await plugin.list({ content: ["backup"], vmid: 101 })).toEqual([]);
    expect(await plugin.list({ content: ["rootdir"] })).toEqual([]);
  });

  it("finds the backups of a guest by their names, and shows what is for all guests beside them", async () => {
    const plugin = pluginAt(root);
    put("template/iso/a.iso");
    put("template/cache/a.tar");
    put("snippets/hook.sh");
    put("import/disk.raw");
    put("import/DISK.RAW");
    put("dump/vzdump-qemu-100-2024_01_02-03_04_05.vma");
    put("dump/vzdump-qemu-100-2024_01_02-03_04_05.vma.notes", "");
    put("dump/before-200-and-100-upgrade.tar.bz2");
    put("dump/vzdump-qemu-1001-2024_01_02-03_04_05.vma");
    const seen = async (vmid?: number) =>
      (await plugin.list(vmid === undefined ? {} : { vmid })).map((row) => [
        row.volname,
        row.vmid,
        row.notes,
      ]);
    expect(await seen(100)).toEqual([
      ["backup/before-200-and-100-upgrade.tar.bz2", 100, undefined],
      ["backup/vzdump-qemu-100-2024_01_02-03_04_05.vma", 100, undefined],
      ["import/disk.raw", undefined, undefined],
      ["snippets/hook.sh", undefined, undefined],
    ]);
    expect(await seen()).toContainEqual(["backup/before-200-and-100-upgrade.tar.bz2", 200, undefined]);
    expect((await plugin.list({ content: ["vztmpl"] })).map(({ format }) => format)).toEqual(["tar"]);
  });

  it("shows images that are not what their names say as invalid, and leaves other files out", async () => {
    const plugin = pluginAt(root);
    put("images/100/vm-100-disk-0.qcow2", "not qcow2");
    put("images/100/vm-100-disk-2.vmdk", "no vmdk");
    put("images/100/notes.txt");
    put("images/x/vm-100-disk-0.raw");
    put("images/100/vm-100-disk-1.raw", "raw");
    expect((await plugin.list()).map(({ volname, format, size }) => [volname, format, size])).toEqual([
      ["100/vm-100-disk-0.qcow2", "invalid", 9],
      ["100/vm-100-disk-1.raw", "raw", 3],
      ["100/vm-100-disk-2.vmdk", "invalid", 7],
    ]);
    await expect(plugin.info("100/vm-100-disk-0.qcow2")).rejects.toThrow("volume_size_info on");
  });

  it("keeps notes and protection of backups, and of nothing else", async () => {
    const plugin = pluginAt(root);
    const volname = "backup/vzdump-qemu-100-2024_01_02-03_04_05.vma";
    put("dump/vzdump-qemu-100-2024_01_02-03_04_05.vma");
    put("dump/vzdump-qemu-100-2024_01_02-03_04_05.log");
    await plugin.setNotes(volname, "a\nb");
    await plugin.setProtected(volname, true);
    expect(await plugin.notes(volname)).toBe("a\nb");
    expect(await plugin.isProtected(volname)).toBe(true);
    await expect(plugin.free(volname)).rejects.toThrow(`cannot remove protected volume '${volname}' on 's'`);
    await plugin.setProtected(volname, false);
    await plugin.setNotes(volname, "");
    expect(await plugin.notes(volname)).toBe("");
    await plugin.setNotes(volname, "again");
    expect((await plugin.info(volname)).format).toBe("raw");
    expect(await plugin.free(volname)).toBe(true);
    expect(existsSync(join(root, "dump/vzdump-qemu-100-2024_01_02-03_04_05.log"))).toBe(false);
    expect(existsSync(join(root, "dump/vzdump-qemu-100-2024_01_02-03_04_05.vma.notes"))).toBe(false);
    put("dump/vzdump-qemu-100-2024_01_02-03_04_05-copy.vma");
    put("dump/vzdump-qemu-100-2024_01_02-03_04_05.log");
    await plugin.free("backup/vzdump-qemu-100-2024_01_02-03_04_05-copy.vma");
    expect(existsSync(join(root, "dump/vzdump-qemu-100-2024_01_02-03_04_05.log"))).toBe(true);
    put("template/iso/a.iso");
    await expect(plugin.setNotes("iso/a.iso", "x")).rejects.toThrow("only backups can have notes");
    await expect(plugin.setProtected("iso/a.iso", true)).rejects.toThrow(
      "only backups support attribute 'protected'",
    );
  });

  it("keeps subvolumes as directories without a size", async () => {
    const plugin = pluginAt(root);
    await expect(plugin.alloc({ vmid: 100, format: "subvol", size: 1 })).rejects.toThrow("subvol quotas");
    const volname = await plugin.alloc({ vmid: 100, format: "subvol", size: 0 });
    expect(volname).toBe("100/subvol-100-disk-0.subvol");
    expect(statSync(plugin.path(volname)).isDirectory()).toBe(true);
    expect(() => plugin.block(volname)).toThrow("is no block device");
    await expect(plugin.createBase(volname)).rejects.toThrow("subvolumes");
    const moved = await plugin.rename(volname, 101);
    expect(moved).toBe("101/subvol-101-disk-0.subvol");
    expect(await plugin.free(moved)).toBe(true);
    expect(existsSync(join(root, "images/101"))).toBe(false);
    const one = await plugin.alloc({ vmid: 100, format: "raw", size: 512 });
    put("images/101/vm-101-disk-0.raw");
    await expect(plugin.rename(one, 101, "vm-101-disk-0.raw")).rejects.toThrow(
      "target volume 'vm-101-disk-0.raw' already exists",
    );
    put("images/100/base-100-disk-0.raw");
    await expect(plugin.createBase(one)).rejects.toThrow(
      `file '${join(root, "images/100/base-100-disk-0.raw")}' already exists`,
    );
  });

  it("takes back what was made when the disk is full, and says so", async () => {
    const full: Exec = async (file, args, options) => {
      if (args[0] !== "create") return exec(file, args, options);
      throw new AppError("internal.error", "qemu-img failed with exit code 1: No space left on device");
    };
    const plugin = pluginAt(root, {}, { exec: full });
    const failed = plugin.alloc({ vmid: 100, format: "qcow2", size: 1 });
    await expect(failed).rejects.toMatchObject({ code: "capacity.exceeded" });
    expect(existsSync(join(root, "images/100"))).toBe(false);
  });

  it("allocates as the storage's preallocation says", async () => {
    const seen: string[][] = [];
    const spy: Exec = (file, args, options) => {
      seen.push([...args]);
      return exec(file, args, options);
    };
    await pluginAt(root, { preallocation: "falloc" }, { exec: spy }).alloc({
      vmid: 100,
      format: "raw",
      size: 4096,
    });
    await pluginAt(root, {}, { exec: spy }).alloc({ vmid: 100, format: "qcow2", size: 4096 });
    expect(seen.map((args) => args[args.indexOf("-o") + 1])).toEqual([
      "preallocation=falloc",
      "preallocation=metadata",
    ]);
  });

  it("reserves space for copies, clones and grown disks too, as the storage says", async () => {
    const source = join(root, "source.raw");
    writeFileSync(source, Buffer.alloc(65_536, 1));
    const image = { node: fileNode(source), format: "raw", fromOutside: false } as const;
    const MIB = 1024 * 1024;
    const used = (plugin: DirPlugin, volname: string): number => statSync(plugin.path(volname)).blocks * 512;
    const made = async (preallocation: string, format: "raw" | "qcow2"): Promise<number[]> => {
      const plugin = pluginAt(join(root, `${preallocation}-${format}`), { preallocation });
      await plugin.activate();
      const copy = await plugin.importFrom(image, { vmid: 100, format, size: 4 * MIB });
      const afterCopy = used(plugin, copy);
      await plugin.resize(copy, 8 * MIB);
      const grown = used(plugin, copy);
      const base = await plugin.createBase(copy);
      const clone = await plugin.cloneLinked(base, 101);
      expect((await plugin.info(clone)).size).toBe(8 * MIB);
      expect(await readImage(plugin.path(clone), "qcow2", 65_532, 8)).toEqual(
        new Uint8Array([1, 1, 1, 1, 0, 0, 0, 0]),
      );
      return [afterCopy, grown, used(plugin, clone)];
    };
    for (const format of ["raw", "qcow2"] as const) {
      const [thin = 0, thinGrown = 0, thinClone = 0] = await made("off", format);
      expect(Math.max(thin, thinGrown, thinClone)).toBeLessThan(2 * MIB);
      const [copy = 0, grown = 0, clone = 0] = await made("falloc", format);
      expect(copy).toBeGreaterThanOrEqual(4 * MIB);
      expect(grown).toBeGreaterThanOrEqual(8 * MIB);
      expect(clone).toBeGreaterThanOrEqual(8 * MIB);
    }
    expect((await made("metadata", "raw"))[2]).toBeLessThan(2 * MIB);
  });

  it("copies no faster than it may", async () => {
    const seen: string[][] = [];
    const spy: Exec = (file, args, options) => {
      seen.push([...args]);
      return exec(file, args, options);
    };
    const plugin = pluginAt(root, {}, { exec: spy });
    const source = join(root, "source.raw");
    writeFileSync(source, Buffer.alloc(65_536, 1));
    const made = await plugin.importFrom(
      { node: fileNode(source), format: "raw", fromOutside: false },
      { vmid: 100, format: "raw" },
      { bytesPerSecond: 10_000_000 },
    );
    expect(seen.at(-1)).toEqual(expect.arrayContaining(["-r", "10000000"]));
    expect(readFileSync(plugin.path(made)).equals(readFileSync(source))).toBe(true);
  });

  it("copies a snapshot of a disk that a guest has open", async () => {
    const plugin = pluginAt(root);
    const volname = await plugin.alloc({ vmid: 100, format: "qcow2", size: 1024 * 1024 });
    const path = plugin.path(volname);
    await exec("qemu-io", ["-f", "qcow2", "-c", "write -P 7 0 1M", path]);
    await plugin.snapshot(volname, "a1");
    const before = statSync(path).size;
    const abort = new AbortController();
    const commands = ["-c", "write -P 8 0 1M", "-c", "flush", "-c", "sleep 60000"];
    const guest = exec("qemu-io", ["-f", "qcow2", ...commands, path], { signal: abort.signal });
    const ended = expect(guest).rejects.toMatchObject({ code: "operation.cancelled" });
    // Whoever tries the file's lock meanwhile keeps the guest from it.
    await vi.waitFor(() => expect(statSync(path).size).toBeGreaterThan(before), 30_000);
    await expect(exec("qemu-img", ["info", path])).rejects.toThrow("lock");
    try {
      const source = { node: fileNode(path), format: "qcow2", fromOutside: false, snapshot: "a1" } as const;
      const made = await plugin.importFrom(source, { vmid: 101, format: "raw" });
      expect(readFileSync(plugin.path(made)).equals(Buffer.alloc(1024 * 1024, 7))).toBe(true);
    } finally {
      abort.abort();
      await ended;
    }
  });

  it("grows a disk with zeroes, whatever lay in its file before", async () => {
    for (const preallocation of ["off", "metadata", "falloc", "full"]) {
      const plugin = pluginAt(join(root, preallocation), { preallocation });
      const volname = await plugin.alloc({ vmid: 100, format: "qcow2", size: 1024 * 1024 });
      await exec("qemu-io", ["-f", "qcow2", "-c", "write -P 7 0 1M", plugin.path(volname)]);
      await plugin.snapshot(volname, "a1");
      await exec("qemu-io", ["-f", "qcow2", "-c", "write -P 8 0 1M", plugin.path(volname)]);
      await plugin.deleteSnapshot(volname, "a1");
      await plugin.resize(volname, 2 * 1024 * 1024);
      const grown = await readImage(plugin.path(volname), "qcow2", 1024 * 1024, 1024 * 1024);
      expect(
        grown.every((byte) => byte === 0),
        preallocation,
      ).toBe(true);
    }
  });

  it("gives new files to the guest's own user", async () => {
    const given: [string, number][] = [];
    const plugin = pluginAt(root, {}, { ownership: (path, vmid) => void given.push([path, vmid]) });
    const volname = await plugin.alloc({ vmid: 100, format: "raw", size: 512 });
    expect(given).toEqual([[plugin.path(volname), 100]]);
    expect(statSync(plugin.path(volname)).mode & 0o777).toBe(0o600);
  });

  it("refuses snapshots of formats without them", async () => {
    const plugin = pluginAt(root);
    const raw = await plugin.alloc({ vmid: 100, format: "raw", size: 512 });
    await expect(plugin.snapshot(raw, "a1")).rejects.toThrow("can't snapshot this image format");
    expect(await plugin.snapshots(raw)).toEqual([]);
    const vmdk = await plugin.alloc({ vmid: 100, format: "vmdk", size: 512 });
    await expect(plugin.resize(vmdk, 1024)).rejects.toThrow("can't resize this image format");
  });

  it("refuses to open a guest's disk that was made to name a file of the host", async () => {
    const plugin = pluginAt(root);
    const volname = await plugin.alloc({ vmid: 100, format: "qcow2", size: 1024 * 1024 });
    writeFileSync(join(root, "secret"), "secret");
    await exec("qemu-img", [
      "rebase",
      "-u",
      "-f",
      "qcow2",
      "-F",
      "raw",
      "-b",
      join(root, "secret"),
      plugin.path(volname),
    ]);
    await expect(plugin.snapshot(volname, "a1")).rejects.toThrow("it builds on a backing file");
    await expect(plugin.exportStream(volname)).rejects.toThrow("it builds on a backing file");
    await expect(
      plugin.importFrom(
        { node: fileNode(plugin.path(volname)), format: "qcow2", fromOutside: true },
        { vmid: 101, format: "raw" },
      ),
    ).rejects.toThrow("it builds on a backing file");
    expect(existsSync(join(root, "images/101"))).toBe(false);
  });

  it("imports an untrusted image after looking at it confined", async () => {
    const plugin = pluginAt(root);
    await plugin.activate();
    const path = join(root, "import/disk.qcow2");
    await exec("qemu-img", ["create", "-q", "-f", "qcow2", path, "1M"]);
    const made = await plugin.importFrom(
      { node: fileNode(path), format: "qcow2", fromOutside: true },
      { vmid: 100, format: "raw" },
    );
    expect(statSync(plugin.path(made)).size).toBe(1024 * 1024);
    writeFileSync(path, Buffer.concat([readFileSync(path).subarray(0, 80), Buffer.alloc(20)]));
    await expect(
      plugin.importFrom(
        { node: fileNode(path), format: "qcow2", fromOutside: true },
        { vmid: 100, format: "raw" },
      ),
    ).rejects.toThrow("the image is refused");
    await expect(
      plugin.importFrom(
        { node: fileNode(path), format: "qcow2", fromOutside: true },
        { vmid: 100, format: "subvol" },
      ),
    ).rejects.toThrow("subvolume");
  });

  it("imports a disk out of an OVA without unpacking it", async () => {
    const plugin = pluginAt(root);
    await plugin.activate();
    const work = join(root, "work");
    mkdirSync(work);
    for (const [name, options] of [
      ["plain.vmdk", "subformat=monolithicSparse"],
      ["stream.vmdk", "subformat=streamOptimized"],
    ] as const) {
      writeFileSync(join(work, "source.raw"), Buffer.alloc(1024 * 1024, name));
      const target = join(work, name);
      await exec("qemu-img", [
        "convert",
        "-f",
        "raw",
        "-O",
        "vmdk",
        "-o",
        options,
        join(work, "source.raw"),
        target,
      ]);
    }
    writeFileSync(join(work, "vm.ovf"), "<x/>");
    const members = ["vm.ovf", "plain.vmdk", "stream.vmdk"];
    await exec("tar", ["--format=ustar", "-cf", join(root, "import/ab.ova"), "-C", work, ...members]);
    for (const name of ["plain.vmdk", "stream.vmdk"]) {
      const source = await plugin.attach(`import/ab.ova/${name}`);
      expect(source).toMatchObject({ format: "vmdk", fromOutside: true });
      const made = await plugin.importFrom(source, { vmid: 100, format: "raw" });
      expect(readFileSync(plugin.path(made)).equals(Buffer.alloc(1024 * 1024, name))).toBe(true);
    }
    await expect(plugin.attach("import/ab.ova/none.vmdk")).rejects.toThrow(
      "the OVA holds no file 'none.vmdk'",
    );
    await expect(plugin.attach("import/none.qcow2")).rejects.toThrow("does not exist");
  });
});
