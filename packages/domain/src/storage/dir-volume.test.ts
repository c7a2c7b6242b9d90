import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatDirVolume, parseDirVolume, relativePathOf, requireDirVolume } from "./dir-volume.ts";
import { freeDiskName, type VolumeName } from "./volume-name.ts";

const vmid = fc.integer({ min: 100, max: 999_999_999 });
const format = fc.constantFrom("raw", "qcow2", "vmdk");
const tail = fc.stringMatching(/^[a-z0-9][a-zA-Z0-9_.-]{0,20}$/);
const image = fc
  .tuple(fc.constantFrom("vm", "base"), vmid, tail, format)
  .map(([prefix, id, rest, ext]) => ({ id, name: `${prefix}-${id}-${rest}.${ext}` }));

describe("volume names of directory storages", () => {
  it("reads and prints images and linked clones alike", () => {
    fc.assert(
      fc.property(image, fc.option(image), (own, base) => {
        const text = `${base === null ? "" : `${base.id}/${base.name}/`}${own.id}/${own.name}`;
        const parsed = requireDirVolume(text);
        expect(formatDirVolume(parsed)).toBe(text);
        expect(parsed.vmid).toBe(own.id);
        expect(parsed.isBase).toBe(own.name.startsWith("base-"));
        expect(own.name.endsWith(parsed.format)).toBe(true);
      }),
    );
  });

  it.each<[string, Partial<VolumeName>, string]>([
    [
      "100/vm-100-disk-0.qcow2",
      { type: "images", vmid: 100, format: "qcow2" },
      "images/100/vm-100-disk-0.qcow2",
    ],
    ["100/vm-100-cloudinit.qcow2", { type: "images", vmid: 100 }, "images/100/vm-100-cloudinit.qcow2"],
    ["100/vm-100-state-a.raw", { format: "raw" }, "images/100/vm-100-state-a.raw"],
    [
      "9000/base-9000-disk-0.qcow2/100/vm-100-disk-0.qcow2",
      { base: { vmid: 9000, name: "base-9000-disk-0.qcow2" } },
      "images/100/vm-100-disk-0.qcow2",
    ],
    ["iso/a b.iso", { type: "iso", format: "raw" }, "template/iso/a b.iso"],
    ["vztmpl/d.tar.zst", { type: "vztmpl" }, "template/cache/d.tar.zst"],
    [
      "backup/vzdump-qemu-100-2024_01_02-03_04_05.vma.zst",
      { type: "backup", vmid: 100 },
      "dump/vzdump-qemu-100-2024_01_02-03_04_05.vma.zst",
    ],
    ["backup/mine.tar", { type: "backup" }, "dump/mine.tar"],
    ["snippets/user.yml", { type: "snippets" }, "snippets/user.yml"],
    ["import/x.qcow2", { type: "import", format: "qcow2" }, "import/x.qcow2"],
    ["import/x.ova/disk.vmdk", { type: "import", format: "ova+vmdk" }, "import/x.ova"],
    ["rootdir/100", { type: "rootdir", vmid: 100 }, "private/100"],
    ["100/subvol-100-disk-0.subvol", { format: "subvol" }, "images/100/subvol-100-disk-0.subvol"],
  ])("knows %s", (volname, expected, path) => {
    const parsed = requireDirVolume(volname);
    expect(parsed).toMatchObject(expected);
    expect(relativePathOf(parsed)).toBe(path);
    expect(formatDirVolume(parsed)).toBe(volname);
  });

  it("puts files where content-dirs says", () => {
    expect(relativePathOf(requireDirVolume("iso/a.iso"), { iso: "isos" })).toBe("isos/a.iso");
  });

  it.each([
    "iso/../x.iso",
    "iso/a/b.iso",
    "iso/.hidden.iso",
    "snippets/",
    "snippets/a/b",
    "import/../x.raw",
    "import/x.ova/../y.vmdk",
    "backup/x.txt",
    "rootdir/x",
    "other/x",
    "x",
    "0/vm-0-disk-0.raw",
    "vztmpl/x.tar.lz4",
    "vztmpl/x.tgz",
    "backup/vzdump-qemu-100-2024_01_02-03_04_05.vma.xz",
    "import/x.img",
    "import/x.QCOW2",
    "import/x.ova/disk.iso",
    "import/x/y.raw",
    "100",
    "100/",
    "100/a b.raw",
  ])("refuses %j", (volname) => {
    expect(parseDirVolume(volname)).toBeUndefined();
    expect(() => requireDirVolume(volname)).toThrow(`unable to parse directory volume name '${volname}'`);
  });

  it.each([
    ["100/../../etc/x.raw", "../../etc/x.raw"],
    ["100/..", ".."],
    ["100/-o.raw", "-o.raw"],
    ["100/.raw", ".raw"],
    ["100/vm-100-disk-0", "vm-100-disk-0"],
    ["100/vm-100-disk-0.qed", "vm-100-disk-0.qed"],
    ["100/vm-100\u0001.raw", "vm-100\u0001.raw"],
    ["9/base.x/1/vm-1.raw", "base.x"],
    ["9/base-9-disk-0.raw/1/vm-1", "vm-1"],
    ["9/base-9-disk-0.raw/vm-1.raw", "base-9-disk-0.raw/vm-1.raw"],
  ])("says which file name in %j is no image's", (volname, name) => {
    expect(parseDirVolume(volname)).toBeUndefined();
    expect(() => requireDirVolume(volname)).toThrow(`unable to parse volume filename '${name}'`);
  });

  it("never leads out of the storage, whatever the name", () => {
    const piece = fc.constantFrom(
      "..",
      "/",
      "iso",
      "100",
      "vm-100-disk-0.raw",
      ".",
      "x.iso",
      "import",
      "\\",
      " ",
      "iso/",
      "100/",
      "import/",
      "../",
    );
    let accepted = 0;
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 8 }).map((parts) => parts.join("")),
        (volname) => {
          const parsed = parseDirVolume(volname);
          if (parsed === undefined) return;
          accepted += 1;
          expect(relativePathOf(parsed).split("/")).not.toContain("..");
        },
      ),
      { numRuns: 3_000 },
    );
    // Names of which none is taken would show nothing.
    expect(accepted).toBeGreaterThan(0);
  });

  it("takes the lowest free number, whatever the extension", () => {
    expect(freeDiskName(100, [], ".raw")).toBe("vm-100-disk-0.raw");
    const used = ["vm-100-disk-0.raw", "base-100-disk-1.qcow2", "vm-1001-disk-2.raw", "vm-100-disk-3"];
    expect(freeDiskName(100, used, ".qcow2")).toBe("vm-100-disk-2.qcow2");
    const all = Array.from({ length: 1024 }, (_, n) => `vm-100-disk-${n}.raw`);
    expect(() => freeDiskName(100, all, ".raw", "vm", "s1")).toThrow(
      "unable to allocate an image name for VM 100 in storage 's1'",
    );
  });
});
