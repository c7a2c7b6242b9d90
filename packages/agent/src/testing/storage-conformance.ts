// What every storage plugin must do. A backend's own tests run this and then add what is special about it.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fileNode, type DiskFormat } from "@gpve/domain/storage/block-node.ts";
import type { StorageFeature, StoragePlugin } from "@gpve/domain/storage/plugin.ts";

export interface StorageTarget {
  readonly plugin: StoragePlugin;
  /** Formats of disks it keeps; the first is used where any will do. */
  readonly formats: readonly DiskFormat[];
  /** Writes bytes into a volume, as a guest would. */
  readonly write: (volname: string, offset: number, bytes: Uint8Array) => Promise<void>;
  readonly read: (volname: string, offset: number, length: number) => Promise<Uint8Array>;
  readonly close: () => Promise<void>;
}

const MIB = 1024 * 1024;
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

export function storageConformance(name: string, open: () => Promise<StorageTarget>): void {
  describe(`Storage conformance: ${name}`, () => {
    let target: StorageTarget;
    let plugin: StoragePlugin;
    let nextVmid = 100;
    beforeAll(async () => {
      target = await open();
      plugin = target.plugin;
      await plugin.activate();
    });
    afterAll(async () => {
      await target.close();
    });
    const newVmid = (): number => nextVmid++;
    const volumesOf = async (vmid: number): Promise<string[]> =>
      (await plugin.list({ content: ["images"], vmid })).map(({ volname }) => volname);
    const sample = (format: DiskFormat): string => plugin.own(100, "vm-100-disk-0", format).volname;
    const formatWith = (feature: StorageFeature): DiskFormat | undefined =>
      target.formats.find((format) => plugin.has(feature, sample(format)));

    it("can be activated twice and tells its space", async () => {
      await plugin.activate();
      const status = await plugin.status();
      expect(status.active).toBe(true);
      expect(status.total).toBeGreaterThan(0);
      expect(status.used).toBeLessThanOrEqual(status.total);
    });

    it("allocates disks of every format under the lowest free numbers", async () => {
      const vmid = newVmid();
      for (const [at, format] of target.formats.entries()) {
        const volname = await plugin.alloc({ vmid, format, size: 4 * MIB });
        expect(volname).toContain(`vm-${vmid}-disk-${at}`);
        expect(await plugin.info(volname)).toMatchObject({ size: 4 * MIB, format });
        expect(plugin.parse(volname)).toMatchObject({ type: "images", vmid, isBase: false });
        expect(plugin.block(volname).format).toBe(format);
      }
      const rows = await plugin.list({ content: ["images"], vmid });
      expect(rows.map(({ size }) => size)).toEqual(target.formats.map(() => 4 * MIB));
      const [first] = await volumesOf(vmid);
      if (first !== undefined) await plugin.free(first);
      const again = await plugin.alloc({ vmid, format: target.formats[0] ?? "raw", size: MIB });
      expect(again).toContain("disk-0");
    });

    it("gives parallel requests different names", async () => {
      const vmid = newVmid();
      const format = target.formats[0] ?? "raw";
      const made = await Promise.all(
        Array.from({ length: 8 }, () => plugin.alloc({ vmid, format, size: MIB })),
      );
      expect(new Set(made).size).toBe(8);
      expect((await volumesOf(vmid)).length).toBe(8);
    });

    it("takes a name, and refuses it when it is taken or odd", async () => {
      const vmid = newVmid();
      const format = target.formats[0] ?? "raw";
      const own = plugin.own(vmid, `vm-${vmid}-pvc-a`, format);
      const request = { vmid, format, size: MIB, name: own.name };
      const volname = await plugin.alloc(request);
      expect(volname).toBe(own.volname);
      await expect(plugin.alloc(request)).rejects.toThrow("already exists");
      await expect(plugin.alloc({ ...request, name: `../${own.name}` })).rejects.toThrow();
      expect(await volumesOf(vmid)).toEqual([volname]);
    });

    it("gives the names of base images to what createBase makes, and to nothing else", async () => {
      const vmid = newVmid();
      const format = target.formats[0] ?? "raw";
      const volname = await plugin.alloc({ vmid, format, size: MIB });
      for (const prefix of ["base", "Base"]) {
        const { name } = plugin.own(vmid, `${prefix}-${vmid}-disk-7`, format);
        const refused = `illegal name '${name}' - should be 'vm-${vmid}-*'`;
        await expect(plugin.alloc({ vmid, format, size: MIB, name })).rejects.toThrow(refused);
        await expect(plugin.rename(volname, vmid, name)).rejects.toThrow(refused);
        const source = await plugin.attach(volname);
        await expect(plugin.importFrom(source, { vmid, format, name })).rejects.toThrow(refused);
        const stream = { format, size: 0, body: (async function* nothing() {})() };
        await expect(plugin.importStream(stream, { vmid, name })).rejects.toThrow(refused);
      }
      expect(await volumesOf(vmid)).toEqual([volname]);
    });

    it("frees a volume once, and does not mind twice", async () => {
      const vmid = newVmid();
      const volname = await plugin.alloc({ vmid, format: target.formats[0] ?? "raw", size: MIB });
      expect(await plugin.free(volname)).toBe(true);
      expect(await plugin.free(volname)).toBe(false);
      expect(await volumesOf(vmid)).toEqual([]);
      await expect(plugin.info(volname)).rejects.toThrow("does not exist");
    });

    it("grows disks, keeps what is in them and never shrinks them", async () => {
      const vmid = newVmid();
      const format = formatWith("resize") ?? "raw";
      const volname = await plugin.alloc({ vmid, format, size: 2 * MIB });
      await target.write(volname, 4096, bytesOf("kept"));
      await plugin.resize(volname, 4 * MIB);
      await plugin.resize(volname, 4 * MIB);
      expect((await plugin.info(volname)).size).toBe(4 * MIB);
      expect(await target.read(volname, 4096, 4)).toEqual(bytesOf("kept"));
      await expect(plugin.resize(volname, MIB)).rejects.toThrow("shrinking disks is not supported");
    });

    it("takes snapshots, goes back to them and forgets them", async () => {
      const format = formatWith("snapshot");
      if (format === undefined) return;
      const volname = await plugin.alloc({ vmid: newVmid(), format, size: 2 * MIB });
      await target.write(volname, 0, bytesOf("one"));
      await plugin.snapshot(volname, "first");
      await target.write(volname, 0, bytesOf("two"));
      expect((await plugin.snapshots(volname)).map(({ name: each }) => each)).toEqual(["first"]);
      await plugin.rollback(volname, "first");
      expect(await target.read(volname, 0, 3)).toEqual(bytesOf("one"));
      await plugin.deleteSnapshot(volname, "first");
      expect(await plugin.snapshots(volname)).toEqual([]);
      await expect(plugin.rollback(volname, "first")).rejects.toThrow();
      await expect(plugin.snapshot(volname, "-bad name")).rejects.toThrow("invalid snapshot name");
    });

    it("makes a base image and linked clones that share it", async () => {
      const format = formatWith("template");
      if (format === undefined) return;
      const vmid = newVmid();
      const volname = await plugin.alloc({ vmid, format, size: 2 * MIB });
      await target.write(volname, 0, bytesOf("base"));
      await expect(plugin.cloneLinked(volname, newVmid())).rejects.toThrow("only works on base images");
      const base = await plugin.createBase(volname);
      expect(plugin.parse(base).isBase).toBe(true);
      await expect(plugin.createBase(base)).rejects.toThrow("create_base not possible with base image");
      const owner = newVmid();
      const clone = await plugin.cloneLinked(base, owner);
      expect(await target.read(clone, 0, 4)).toEqual(bytesOf("base"));
      await target.write(clone, 0, bytesOf("mine"));
      expect(await target.read(base, 0, 4)).toEqual(bytesOf("base"));
      expect(await volumesOf(owner)).toEqual([clone]);
      if (plugin.parse(clone).base === undefined) {
        // The clone stands alone.
        expect(await plugin.free(base)).toBe(true);
        expect(await target.read(clone, 0, 4)).toEqual(bytesOf("mine"));
      } else {
        await expect(plugin.free(base)).rejects.toThrow("still in use");
        await plugin.free(clone);
        expect(await plugin.free(base)).toBe(true);
      }
    });

    it("attaches volumes one by one, as often as asked, and says by which driver", async () => {
      for (const format of target.formats) {
        const volname = await plugin.alloc({ vmid: newVmid(), format, size: MIB });
        const { node, format: own, fromOutside } = await plugin.attach(volname);
        expect({ node, format: own }).toEqual(plugin.block(volname));
        expect([own, fromOutside, typeof node.driver]).toEqual([format, false, "string"]);
        await plugin.attach(volname);
        await plugin.detach(volname);
        await plugin.detach(volname);
        await plugin.attach(volname);
        await plugin.free(volname);
        await expect(plugin.attach(volname)).rejects.toThrow("does not exist");
      }
    });

    it("says which format a new disk gets", () => {
      for (const format of target.formats) expect(plugin.format(format)).toBe(format);
      expect(target.formats).toContain(plugin.format());
      expect(target.formats).toContain(plugin.format("nonsense"));
    });

    it("reads a snapshot beside what came after it", async () => {
      const format = formatWith("snapshot");
      if (format === undefined) return;
      const volname = await plugin.alloc({ vmid: newVmid(), format, size: 2 * MIB });
      await target.write(volname, 0, bytesOf("then"));
      await plugin.snapshot(volname, "s1");
      await target.write(volname, 0, bytesOf("now!"));
      const source = await plugin.attach(volname, { snapshot: "s1" });
      const copy = await plugin.importFrom(source, { vmid: newVmid(), format: "raw" });
      await plugin.detach(volname, { snapshot: "s1" });
      expect(await target.read(copy, 0, 4)).toEqual(bytesOf("then"));
      expect(await target.read(volname, 0, 4)).toEqual(bytesOf("now!"));
    });

    it("gives a volume to another guest", async () => {
      const volname = await plugin.alloc({ vmid: newVmid(), format: target.formats[0] ?? "raw", size: MIB });
      await target.write(volname, 0, bytesOf("move"));
      const owner = newVmid();
      const moved = await plugin.rename(volname, owner);
      expect(plugin.parse(moved).vmid).toBe(owner);
      expect(await target.read(moved, 0, 4)).toEqual(bytesOf("move"));
      await expect(plugin.info(volname)).rejects.toThrow("does not exist");
    });

    it("copies an image into every format, with progress, as large as asked", async () => {
      const source = await plugin.alloc({ vmid: newVmid(), format: "raw", size: 2 * MIB });
      await target.write(source, MIB, bytesOf("copied"));
      for (const format of target.formats) {
        const seen: number[] = [];
        const size = plugin.has("resize", sample(format)) ? 3 * MIB : 2 * MIB;
        const made = await plugin.importFrom(
          await plugin.attach(source),
          { vmid: newVmid(), format, size },
          { progress: (fraction) => seen.push(fraction) },
        );
        expect((await plugin.info(made)).size).toBe(size);
        expect(await target.read(made, MIB, 6)).toEqual(bytesOf("copied"));
        expect(seen.at(-1)).toBe(1);
      }
    });

    it("streams a volume out and in again, and keeps nothing of a cut stream", async () => {
      const volname = await plugin.alloc({ vmid: newVmid(), format: "raw", size: 2 * MIB });
      await target.write(volname, MIB, bytesOf("stream"));
      const made = await plugin.importStream(await plugin.exportStream(volname), { vmid: newVmid() });
      expect(await target.read(made, MIB, 6)).toEqual(bytesOf("stream"));
      const owner = newVmid();
      const cut = {
        format: "raw",
        size: 10,
        body: (async function* cutBody() {
          yield bytesOf("cut");
        })(),
      } as const;
      await expect(plugin.importStream(cut, { vmid: owner })).rejects.toThrow("ended after 3 of 10 bytes");
      expect(await volumesOf(owner)).toEqual([]);
    });

    it("leaves nothing behind when an import fails or is cancelled", async () => {
      const vmid = newVmid();
      const format = target.formats[0] ?? "raw";
      const missing = { node: fileNode("/nonexistent/none.raw"), format: "raw", fromOutside: false } as const;
      await expect(plugin.importFrom(missing, { vmid, format })).rejects.toThrow();
      const signal = AbortSignal.abort(new Error("stop"));
      await expect(plugin.alloc({ vmid, format, size: MIB }, { signal })).rejects.toThrow();
      expect(await volumesOf(vmid)).toEqual([]);
    });

    it("answers about features and refuses names it cannot have", () => {
      expect(() => plugin.parse("../../etc/passwd")).toThrow("unable to parse");
      expect(() => plugin.path("x")).toThrow("unable to parse");
      expect(plugin.has("replicate", sample(target.formats[0] ?? "raw"))).toBe(true);
    });
  });
}
