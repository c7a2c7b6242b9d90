import {
  existsSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { pack, type Header } from "tar-stream";
import { afterEach, beforeEach, expect, test } from "vitest";
import { firstMember, unpackArchive } from "./unpack-archive.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-unpack-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

type Packed = readonly [Pick<Header, "name"> & Partial<Header>, string?];

const { signal } = new AbortController();
const own = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };

async function archive(...members: readonly Packed[]): Promise<string> {
  const tar = pack();
  for (const [header, body] of members) tar.entry({ ...own, ...header }, body ?? "");
  tar.finalize();
  const path = join(folder, "a.tar.gz");
  const pieces: Uint8Array[] = [];
  for await (const piece of tar as AsyncIterable<Uint8Array>) pieces.push(piece);
  writeFileSync(path, gzipSync(Buffer.concat(pieces)));
  return path;
}

test("has what was packed: folders, files with modes and holes, links", async () => {
  const zeros = "\0".repeat(200_000);
  const path = await archive(
    [{ name: "manifest.json" }, "{}"],
    [{ name: "v/", type: "directory", mode: 0o750 }],
    [{ name: "v/file", mode: 0o640 }, `${zeros}end`],
    [{ name: "v/soft", type: "symlink", linkname: "/etc/passwd" }],
    [{ name: "v/hard", type: "link", linkname: "v/file" }],
    [{ name: "left/out" }, "x"],
  );
  expect(await firstMember(path, "manifest.json")).toBe("{}");
  await unpackArchive(path, folder, ["v"], signal);
  expect(readFileSync(join(folder, "v/file"), "utf8")).toBe(`${zeros}end`);
  expect(statSync(join(folder, "v/file")).mode & 0o7777).toBe(0o640);
  expect(statSync(join(folder, "v")).mode & 0o7777).toBe(0o750);
  expect(statSync(join(folder, "v/hard")).ino).toBe(statSync(join(folder, "v/file")).ino);
  expect(readlinkSync(join(folder, "v/soft"))).toBe("/etc/passwd");
  expect(existsSync(join(folder, "left"))).toBe(false);
});

test.each<[string, readonly Packed[], string]>([
  ["a way up", [[{ name: "v/../../out" }, "x"]], "leads out"],
  ["a way from the top", [[{ name: "/v/out" }, "x"]], "leads out"],
  [
    "a way through a link",
    [[{ name: "v/l", type: "symlink", linkname: "/tmp" }], [{ name: "v/l/gpve-out" }, "x"]],
    "leads through something else",
  ],
  [
    "a file in the place of a link",
    [[{ name: "v/l", type: "symlink", linkname: "/tmp/gpve-out" }], [{ name: "v/l" }, "x"]],
    "EEXIST",
  ],
  [
    "a folder in the place of a link",
    [
      [{ name: "v/l", type: "symlink", linkname: "/tmp" }],
      [{ name: "v/l/", type: "directory", mode: 0o777 }],
    ],
    "leads through something else",
  ],
  ["a second name for what is outside", [[{ name: "v/h", type: "link", linkname: "../a" }]], "leads out"],
  [
    "a second name through a link",
    [
      [{ name: "v/l", type: "symlink", linkname: "/etc" }],
      [{ name: "v/h", type: "link", linkname: "v/l/passwd" }],
    ],
    "leads through something else",
  ],
])("is refused with %s", async (_what, members, why) => {
  const path = await archive([{ name: "v/", type: "directory" }], ...members);
  await expect(unpackArchive(path, folder, ["v"], signal)).rejects.toThrow(why);
  expect(existsSync("/tmp/gpve-out")).toBe(false);
});

test("makes no devices", async () => {
  const path = await archive([{ name: "v/null", type: "character-device", devmajor: 1, devminor: 3 }]);
  await unpackArchive(path, folder, ["v"], signal);
  expect(existsSync(join(folder, "v/null"))).toBe(false);
});

test.each([
  ["something else comes first", (path: string) => path, "begins with something else"],
  [
    "it is no archive",
    (path: string) => {
      writeFileSync(path, "no archive");
      return path;
    },
    "is no backup of a virtual cluster",
  ],
] as const)("is no backup when %s", async (_what, change, why) => {
  const path = change(await archive([{ name: "other" }, "x"], [{ name: "manifest.json" }, "{}"]));
  await expect(firstMember(path, "manifest.json")).rejects.toThrow(why);
});

test("ends when it is told to", async () => {
  const path = await archive([{ name: "v/file" }, "x"]);
  await expect(unpackArchive(path, folder, ["v"], AbortSignal.abort(new Error("stopped")))).rejects.toThrow(
    "stopped",
  );
});
