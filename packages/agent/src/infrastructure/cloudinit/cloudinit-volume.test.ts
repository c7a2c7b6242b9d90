import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { plainTools } from "../image-tools/image-tools.ts";
import { CloudinitVolumes } from "./cloudinit-volume.ts";
import { ISO_SECTOR, isoImage } from "./iso-image.ts";
import { hashCloudinitPassword, randomSalt, shaCrypt } from "./sha-crypt.ts";

/** Reads a disc back the way a guest does: by Rock Ridge names from the primary tree, or by Joliet's. */
function readIso(image: Uint8Array, naming: "rock-ridge" | "joliet"): Record<string, string> {
  const bytes = Buffer.from(image);
  const found: Record<string, string> = {};
  const nameOf = (record: Buffer): string => {
    const length = record[32] ?? 0;
    const id = record.subarray(33, 33 + length);
    if (naming === "joliet") return Buffer.from(id).swap16().toString("utf16le");
    for (
      let at = 33 + length + (length % 2 === 0 ? 1 : 0);
      at + 4 <= record.length;
      at += record[at + 2] ?? 255
    ) {
      if (record.toString("latin1", at, at + 2) === "NM")
        return record.toString("utf8", at + 5, at + (record[at + 2] ?? 0));
    }
    throw new Error("no Rock Ridge name");
  };
  const walk = (sector: number, size: number, path: string): void => {
    const folder = bytes.subarray(sector * ISO_SECTOR, sector * ISO_SECTOR + size);
    for (let at = 0; at < folder.length;) {
      const length = folder[at] ?? 0;
      if (length === 0) {
        at = Math.ceil((at + 1) / ISO_SECTOR) * ISO_SECTOR;
        continue;
      }
      const record = folder.subarray(at, at + length);
      at += length;
      const isSelf = record[32] === 1 && (record[33] ?? 9) < 2;
      if (isSelf) continue;
      const [start, bytesLong] = [record.readUInt32LE(2), record.readUInt32BE(14)];
      if (((record[25] ?? 0) & 2) !== 0) walk(start, bytesLong, `${path}${nameOf(record)}/`);
      else
        found[`${path}${nameOf(record)}`] = bytes.toString(
          "utf8",
          start * ISO_SECTOR,
          start * ISO_SECTOR + bytesLong,
        );
    }
  };
  const descriptor = bytes.subarray((naming === "joliet" ? 17 : 16) * ISO_SECTOR);
  walk(descriptor.readUInt32LE(158), descriptor.readUInt32LE(166), "");
  return found;
}

describe("an ISO image", () => {
  test("gives back every file under its own name, both ways", () => {
    const name = fc.stringMatching(/^[a-z0-9][a-z0-9_.-]{0,20}$/);
    const path = fc
      .array(name, { minLength: 1, maxLength: 4 })
      .map((steps) => steps.map((step, i) => `${i}${step}`).join("/"));
    fc.assert(
      fc.property(fc.dictionary(path, fc.string(), { maxKeys: 60, noNullPrototype: true }), (wanted) => {
        const clash = Object.keys(wanted).some((a) => Object.keys(wanted).some((b) => b.startsWith(`${a}/`)));
        fc.pre(!clash);
        const image = isoImage({ label: "cidata", files: wanted });
        expect(image.length % ISO_SECTOR).toBe(0);
        expect(readIso(image, "rock-ridge")).toEqual(wanted);
        expect(readIso(image, "joliet")).toEqual(wanted);
      }),
      { numRuns: 50 },
    );
  });

  test("has its label where guests look for it, and the same bytes every time", () => {
    const image = Buffer.from(isoImage({ label: "config-2", files: { a: "b" } }));
    expect(image.toString("latin1", 32808, 32840).trimEnd()).toBe("config-2");
    expect(image).toEqual(Buffer.from(isoImage({ label: "config-2", files: { a: "b" } })));
  });

  test("refuses names that lead elsewhere", () => {
    for (const path of ["/a", "a//b", "../a", "a/.", ""]) {
      expect(() => isoImage({ label: "x", files: { [path]: "" } })).toThrow("bad file name");
    }
  });
});

describe("SHA-crypt", () => {
  test("agrees with the test vectors of its specification", () => {
    expect(shaCrypt("sha256", "Hello world!", "saltstring")).toBe(
      "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
    );
    expect(shaCrypt("sha256", "Hello world!", "saltstringsaltstring", 10_000)).toBe(
      "$5$rounds=10000$saltstringsaltst$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA",
    );
    expect(shaCrypt("sha512", "Hello world!", "saltstring")).toBe(
      "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
    );
  });

  test("hashes a password with a fresh salt", () => {
    expect(hashCloudinitPassword("secret")).toMatch(/^\$5\$[./0-9A-Za-z]{12}\$[./0-9A-Za-z]{43}$/);
    expect(randomSalt()).not.toBe(randomSalt());
  });
});

describe("a cloud-init volume", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-ci-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const volumes = (exec: Exec): CloudinitVolumes =>
    new CloudinitVolumes({
      tools: plainTools(exec),
      dns: { read: async () => ({ dns1: "192.0.2.1" }), write: async () => undefined },
      snippet: async () => "custom",
    });
  const storage = {
    attach: async () => ({
      node: { driver: "file", filename: "/x/a,b.qcow2" },
      format: "qcow2",
      fromOutside: false,
    }),
    info: async () => ({ size: 4 * 1024 * 1024, used: 0, format: "qcow2" }),
  } as unknown as StoragePlugin;

  test("is filled through qemu-img, whole, without leaving the drive's text behind", async () => {
    let written: Record<string, string> = {};
    let target = "";
    const keep: Exec = async (file, args) => {
      expect(file).toBe("qemu-img");
      target = args.at(-1) ?? "";
      const source = readFileSync(args.at(-2) ?? "");
      expect(source.length).toBe(4 * 1024 * 1024);
      written = readIso(source, "rock-ridge");
      return { code: 0, stdout: "", stderr: "" };
    };
    await volumes(keep).write(storage, "100/vm-100-cloudinit.qcow2", 100, {
      name: "web",
      cicustom: "vendor=local:snippets/v",
    });
    expect(target).toBe("driver=qcow2,file.driver=file,file.locking=off,file.filename=/x/a,,b.qcow2");
    expect(written["user-data"]).toContain("hostname: web\n");
    expect(written["vendor-data"]).toBe("custom");
    expect(written["meta-data"]).toMatch(/^instance-id: [0-9a-f]{40}\n$/);
  });

  test("says so when it cannot be written", async () => {
    const fail: Exec = () => Promise.reject(new AppError("internal.error", "no space"));
    await expect(volumes(fail).write(storage, "v", 100, {})).rejects.toThrow(
      "cannot write the cloud-init drive: no space",
    );
  });

  test("can be shown, and made with network version 2 or as a context", async () => {
    const some = volumes(() => Promise.reject(new Error("not called")));
    expect(await some.dump(100, {}, "user")).toContain("hostname: VM100");
    const values = { net0: "virtio=BC:24:11:00:00:01", ipconfig0: "ip=dhcp" };
    expect((await some.files(100, values, 2)).files["network-config"]).toContain("version: 2");
    expect((await some.files(100, { citype: "opennebula", cipassword: "x" })).files["context.sh"]).toContain(
      "BASE64=eA==",
    );
  });
});
