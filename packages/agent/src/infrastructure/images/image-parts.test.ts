import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { cpioArchive, type CpioEntry, withFolders } from "./cpio-archive.ts";
import { PackageGraph, parseDepends, parseUris } from "./debian-packages.ts";
import { elfFacts } from "./elf-facts.ts";
import { collectModules, describeModule, modulesAlias, modulesDep } from "./kernel-modules.ts";
import { masterBootRecord } from "./mbr.ts";

const folders: string[] = [];
const scratch = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-images-"));
  folders.push(folder);
  return folder;
};
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

describe("an archive for the kernel", () => {
  /** Reads "newc" as the kernel does. */
  const read = (archive: Uint8Array): [string, number, string][] => {
    const bytes = Buffer.from(archive);
    const found: [string, number, string][] = [];
    for (let at = 0; ;) {
      const field = (index: number): number =>
        parseInt(bytes.toString("latin1", at + 6 + index * 8, at + 14 + index * 8), 16);
      expect(bytes.toString("latin1", at, at + 6)).toBe("070701");
      const name = bytes.toString("utf8", at + 110, at + 110 + field(11) - 1);
      if (name === "TRAILER!!!") return found;
      const data = Math.ceil((at + 110 + field(11)) / 4) * 4;
      found.push([name, field(1), bytes.toString("utf8", data, data + field(6))]);
      at = Math.ceil((data + field(6)) / 4) * 4;
    }
  };

  test("holds every entry with its mode and content, whatever their lengths", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.stringMatching(/^[a-z]{1,9}$/)),
        fc.string({ unit: "binary-ascii" }),
        (names, text) => {
          const entries = names.map((path): CpioEntry => ({ path, kind: "file", data: Buffer.from(text) }));
          expect(read(cpioArchive(entries))).toEqual(names.map((path) => [path, 0o100644, text]));
        },
      ),
    );
  });

  test("has the folders above each file, links and programs", () => {
    const entries = withFolders([
      { path: "usr/bin/run", kind: "file", data: Buffer.from("x"), executable: true },
      { path: "usr/bin/go", kind: "link", data: Buffer.from("run") },
      { path: "proc", kind: "folder" },
    ]);
    expect(read(cpioArchive(entries))).toEqual([
      ["proc", 0o040755, ""],
      ["usr", 0o040755, ""],
      ["usr/bin", 0o040755, ""],
      ["usr/bin/go", 0o120777, "run"],
      ["usr/bin/run", 0o100755, "x"],
    ]);
  });
});

describe("an ELF file", () => {
  test("names its loader and libraries", () => {
    const facts = elfFacts(readFileSync(process.execPath));
    expect(facts?.interpreter).toContain("/ld-linux");
    expect(facts?.needed).toContain("libc.so.6");
  });

  test("that is none is not taken for one", () => {
    expect(elfFacts(Buffer.from("#!/bin/sh\n"))).toBeUndefined();
    expect(elfFacts(new Uint8Array(64))).toBeUndefined();
  });
});

describe("kernel modules", () => {
  const module = (...facts: string[]): Buffer => Buffer.from(`\x7fELF\0${facts.join("\0")}\0`, "latin1");

  test("say what they need and which devices they serve", () => {
    const found = describeModule(
      "a",
      module("license=GPL", "alias=pci:v00001AF4*", "depends=b,c-d", "alias=x"),
    );
    expect(found).toMatchObject({ depends: ["b", "c_d"], aliases: ["pci:v00001AF4*", "x"] });
  });

  test("come with all they need, found below any folder, compressed or not", async () => {
    const folder = scratch();
    mkdirSync(join(folder, "kernel/drivers"), { recursive: true });
    writeFileSync(join(folder, "kernel/drivers/top-one.ko"), module("depends=middle"));
    writeFileSync(join(folder, "kernel/middle.ko"), module("depends=low"));
    writeFileSync(join(folder, "kernel/low.ko.xz"), "packed");
    const unpack: typeof exec = async (file, args) => {
      expect([file, args.at(-1)]).toEqual(["xz", join(folder, "kernel/low.ko.xz")]);
      writeFileSync(join(folder, "kernel/low.ko"), module("depends=", "alias=low-alias"));
      return { code: 0, stdout: "", stderr: "" };
    };
    const modules = await collectModules(folder, ["top_one", "built_in"], unpack);
    expect(modulesDep(modules)).toBe("low.ko:\nmiddle.ko: low.ko\ntop_one.ko: middle.ko low.ko\n");
    expect(modulesAlias(modules)).toBe("alias low-alias low\n");
  });

  test("must be there at all", async () => {
    await expect(collectModules(scratch(), ["a"], exec)).rejects.toThrow("no kernel modules below");
  });
});

describe("apt's answers", () => {
  test("tell files and checksums", () => {
    const text = "Reading…\n'http://deb.debian.org/x/a_1_amd64.deb' a_1_amd64.deb 12 SHA256:abc\n";
    expect(parseUris(text)).toEqual([
      { url: "http://deb.debian.org/x/a_1_amd64.deb", file: "a_1_amd64.deb", checksum: "SHA256:abc" },
    ]);
  });

  test("tell dependencies, the first of alternatives", () => {
    const graph = parseDepends(
      "meta\n  Depends: linux-image-6.1.0-1-amd64\nga\n  PreDepends: libc6\n |Depends: libx1\n  Depends: liby1\n  Depends: perl\nlibx1\n  Depends: <virtual>\n  Depends: libz1\n",
    );
    expect(graph.get("ga")).toEqual(["libc6", "libx1", "perl"]);
    const packages = new PackageGraph(graph);
    expect(packages.libraries("ga")).toEqual(["libc6", "libx1", "libz1"]);
    expect(packages.meaning("meta", /^linux-image-\d/)).toBe("linux-image-6.1.0-1-amd64");
    expect(() => packages.meaning("ga", /^linux/)).toThrow("run `apt-get update`");
  });
});

describe("a partition table", () => {
  test("marks type, place and size", () => {
    const record = Buffer.from(
      masterBootRecord(
        Buffer.from([1, 2]),
        [{ startBytes: 1048576, sizeBytes: 2048, type: 0x83, bootable: true }],
        7,
      ),
    );
    expect(record[446]).toBe(0x80);
    expect(record[450]).toBe(0x83);
    expect([record.readUInt32LE(454), record.readUInt32LE(458), record.readUInt32LE(440)]).toEqual([
      2048, 4, 7,
    ]);
    expect(record.readUInt16LE(510)).toBe(0xaa55);
  });

  test("refuses what does not fit", () => {
    const partition = { startBytes: 0, sizeBytes: 512, type: 1 };
    expect(() => masterBootRecord(new Uint8Array(441), [], 0)).toThrow("does not fit");
    expect(() =>
      masterBootRecord(
        new Uint8Array(),
        Array.from({ length: 5 }, () => partition),
        0,
      ),
    ).toThrow("four");
  });
});
