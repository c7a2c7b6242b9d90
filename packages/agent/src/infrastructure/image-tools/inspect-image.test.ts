import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { plainTools } from "./image-tools.ts";
import { head, inspectImage } from "./inspect-image.ts";
import { parseQcow2Header } from "./qcow2-header.ts";
import { preallocationFor, progressOf } from "./qemu-img.ts";
import { judgeDescriptor, judgeVmdk } from "./vmdk-descriptor.ts";

const tools = plainTools(exec);
let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-inspect-"));
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const make = async (name: string, ...args: string[]): Promise<string> => {
  const path = join(folder, name);
  await exec("qemu-img", ["create", "-q", ...args, path, "1M"]);
  return path;
};

describe("looking at untrusted images", () => {
  it("accepts honest images of each format", async () => {
    for (const format of ["raw", "qcow2", "vmdk"] as const) {
      const path = await make(`a.${format}`, "-f", format);
      expect(await inspectImage(path, format, { tools })).toEqual({ format, virtualSize: 1024 * 1024 });
    }
    const stream = await make("s.vmdk", "-f", "vmdk", "-o", "subformat=streamOptimized");
    expect((await inspectImage(stream, "vmdk", { tools })).virtualSize).toBe(1024 * 1024);
  });

  it("refuses a qcow2 with a backing file, and one with its data elsewhere", async () => {
    const base = await make("base.raw", "-f", "raw");
    const linked = await make("linked.qcow2", "-f", "qcow2", "-b", base, "-F", "raw");
    await expect(inspectImage(linked, "qcow2", { tools })).rejects.toThrow("it builds on a backing file");
    const outside = await make("outside.qcow2", "-f", "qcow2", "-o", `data_file=${join(folder, "data.raw")}`);
    await expect(inspectImage(outside, "qcow2", { tools })).rejects.toThrow(
      "it keeps its data in another file",
    );
  });

  it("refuses absurd sizes and false formats", async () => {
    const huge = await make("huge.qcow2", "-f", "qcow2");
    const bytes = Buffer.from(await head(huge, 1_000_000));
    bytes.writeBigUInt64BE(2n ** 52n, 24);
    writeFileSync(huge, bytes);
    await expect(inspectImage(huge, "qcow2", { tools })).rejects.toThrow("absurd");
    bytes.writeBigUInt64BE(2n ** 60n, 24);
    writeFileSync(huge, bytes);
    await expect(inspectImage(huge, "qcow2", { tools })).rejects.toThrow("absurd");
    const raw = await make("plain.raw", "-f", "raw");
    await expect(inspectImage(raw, "qcow2", { tools })).rejects.toThrow("Image is not in qcow2 format");
    await expect(inspectImage(raw, "vmdk", { tools })).rejects.toThrow("no self-contained VMDK");
  });

  it("refuses a qcow2 that was cut or damaged, and minds no leaked clusters", async () => {
    const whole = await make("whole.qcow2", "-f", "qcow2");
    await exec("qemu-io", ["-f", "qcow2", "-c", "write -P 7 0 512k", whole]);
    const bytes = readFileSync(whole);
    const cut = join(folder, "cut.qcow2");
    for (const length of [1000, 200_000, bytes.length - 200_000]) {
      writeFileSync(cut, bytes.subarray(0, length));
      await expect(inspectImage(cut, "qcow2", { tools })).rejects.toThrow(
        /the image is refused: .*(?:damaged|check)/,
      );
    }
    // A reference count that is too high.
    const refcounts = Number(bytes.readBigUInt64BE(Number(bytes.readBigUInt64BE(48))));
    const leaked = Buffer.from(bytes);
    leaked.writeUInt16BE(1, refcounts + 2 * (bytes.length / 65_536 + 3));
    writeFileSync(cut, leaked);
    expect(await inspectImage(cut, "qcow2", { tools })).toMatchObject({ virtualSize: 1024 * 1024 });
  });

  it("refuses VMDKs that name other files", async () => {
    const flat = await make("flat.vmdk", "-f", "vmdk", "-o", "subformat=monolithicFlat");
    await expect(inspectImage(flat, "vmdk", { tools })).rejects.toThrow("no self-contained VMDK");
    const good = 'createType="monolithicSparse"\nRW 2048 SPARSE "a.vmdk"\n';
    expect(judgeDescriptor(good)).toBeUndefined();
    expect(judgeDescriptor(good.replace("SPARSE", "FLAT"))).toContain("FLAT");
    expect(judgeDescriptor(good.replace("a.vmdk", "/etc/shadow"))).toContain("another directory");
    expect(judgeDescriptor(`${good}parentFileNameHint="x"`)).toContain("parent");
    expect(judgeDescriptor(`${good}RW 1 SPARSE "b.vmdk"`)).toContain("2 extents");
    expect(judgeDescriptor("")).toContain("kind");
  });

  it("survives any bytes", () => {
    const magic = fc.constantFrom([0x51, 0x46, 0x49, 0xfb, 0, 0, 0, 3], [0x4b, 0x44, 0x4d, 0x56]);
    fc.assert(
      fc.property(magic, fc.uint8Array({ minLength: 512, maxLength: 2048 }), (start, rest) => {
        const bytes = Uint8Array.from([...start, ...rest]);
        expect(judgeVmdk(bytes).ok).toBeTypeOf("boolean");
        try {
          parseQcow2Header(bytes);
        } catch (err) {
          expect(err).toBeInstanceOf(RangeError);
        }
      }),
    );
  });
});

it("judges a descriptor in the time its length asks for", () => {
  const started = process.cpuUsage().user / 1000;
  expect(judgeDescriptor("\n".repeat(1024 * 1024))).toContain("its kind");
  expect(process.cpuUsage().user / 1000 - started).toBeLessThan(5_000);
});

it("refuses a qcow2 header of version 3 that ends before its end", () => {
  const bytes = Buffer.alloc(80);
  bytes.writeUInt32BE(0x514649fb, 0);
  bytes.writeUInt32BE(3, 4);
  expect(() => parseQcow2Header(bytes)).toThrow("the header is cut off");
});

describe("talking to qemu-img", () => {
  it("reads its progress", () => {
    expect(progressOf("    (12.50/100%)")).toBe(0.125);
    expect(progressOf("done")).toBeUndefined();
  });

  it("asks only for preallocation a format has", () => {
    expect(preallocationFor("qcow2", undefined)).toBe("metadata");
    expect(preallocationFor("raw", "metadata")).toBe("off");
    expect(preallocationFor("raw", "full")).toBe("full");
    expect(preallocationFor("vmdk", "full")).toBeUndefined();
  });
});
