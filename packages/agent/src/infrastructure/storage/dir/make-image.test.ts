// Whoever can write to a storage's directory while an image is made there puts a link in its place. Root writes to what it
// has made, or not at all.
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fileNode } from "@gpve/domain/storage/block-node.ts";
import { exec } from "@gpve/kit/exec.ts";
import { CAN_CONFINE, confinedImageTools } from "../../../testing/confined-image-tools.ts";
import { plainTools } from "../../image-tools/image-tools.ts";
import { fillFromStream } from "../../image-tools/image-stream.ts";
import type { EmptyImage } from "../../image-tools/empty-image.ts";
import { makeImage } from "./make-image.ts";
import { QemuImg } from "../../image-tools/qemu-img.ts";

const SECRET = "a file of the host";
const MIB = 1024 * 1024;
let root: string;
let secret: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "gpve-make-"));
  mkdirSync(join(root, "images"));
  secret = join(root, "secret");
  writeFileSync(secret, SECRET, { mode: 0o600 });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const swap = (path: string): void => {
  rmSync(path);
  symlinkSync(secret, path);
};
const make = (format: "raw" | "qcow2", fill: (image: EmptyImage) => Promise<void>): Promise<string> =>
  makeImage(
    join(root, "images"),
    { storage: "s", vmid: 100, format, name: undefined, ownership: undefined },
    async (image) => {
      swap(image.path);
      await fill(image);
    },
  );
const base = { reference: "../9/base-9-disk-0.raw", format: "raw", size: MIB } as const;
const bytes = async function* (): AsyncGenerator<Uint8Array> {
  yield Buffer.alloc(512, 1);
};

describe("a link that takes a new image's place", () => {
  const plain = plainTools(exec);
  it.each<[string, "raw" | "qcow2", (image: EmptyImage) => Promise<void>]>([
    ["empty disk", "raw", (image) => new QemuImg(plain, "off").create(image, "raw", MIB)],
    ["linked clone", "qcow2", (image) => new QemuImg(plain, undefined).createLinked(image, base)],
    [
      "stream",
      "raw",
      (image) =>
        fillFromStream(image, { format: "raw", size: 512, body: bytes() }, {}).catch((err: unknown) => {
          expect(String(err)).toContain("is a link where");
        }),
    ],
  ])("is not written through: %s", async (_what, format, fill) => {
    await make(format, fill);
    expect(readFileSync(secret, "utf8")).toBe(SECRET);
    expect(lstatSync(secret).mode & 0o777).toBe(0o600);
  });

  it.skipIf(!CAN_CONFINE)("is not written through by qemu-img either (skipped without root)", async () => {
    const qemuImg = new QemuImg(confinedImageTools(root), "metadata");
    const work: readonly ((image: EmptyImage) => Promise<void>)[] = [
      (image) => qemuImg.create(image, "qcow2", MIB),
      (image) => qemuImg.createLinked(image, { ...base, format: "qcow2" }),
      ({ path }) => qemuImg.convert({ node: fileNode(secret), format: "raw" }, { path, format: "qcow2" }),
    ];
    for (const fill of work) await expect(make("qcow2", fill)).rejects.toThrow(/is a link where/);
    expect(readFileSync(secret, "utf8")).toBe(SECRET);
    expect(existsSync(join(root, "images/100"))).toBe(false);
  });

  it("as a whole folder gets no image", async () => {
    mkdirSync(join(root, "elsewhere"));
    symlinkSync("../elsewhere", join(root, "images/100"));
    await expect(make("raw", () => Promise.resolve())).rejects.toThrow("is a link where");
    expect(readdirSync(join(root, "elsewhere"))).toEqual([]);
  });
});
