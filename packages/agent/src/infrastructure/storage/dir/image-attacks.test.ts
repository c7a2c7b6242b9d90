// A guest that took over its QEMU can write whatever it likes into its own image. Here each way of naming a file of the
// host in a header meets each way of reading an image.
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fileNode } from "@gpve/domain/storage/block-node.ts";
import { newStorageDefinition } from "@gpve/domain/storage/definition.ts";
import { exec } from "@gpve/kit/exec.ts";
import { CAN_CONFINE, confinedImageTools } from "../../../testing/confined-image-tools.ts";
import { readImage, writeImage } from "../../../testing/qemu-io.ts";
import { hasUserNamespaces } from "../../guest-process/confinement.ts";
import { withImage } from "../../backup/nbd/image-server.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { imageName } from "../../image-tools/image-node.ts";
import { plainTools, type ImageTools } from "../../image-tools/image-tools.ts";
import { DirPlugin } from "./dir-plugin.ts";
import { plainPlugins } from "../../../testing/plain-plugins.ts";

const SECRET = "root:$6$the-secret-of-the-host:";
const MIB = 1024 * 1024;

const canNamespace = await hasUserNamespaces(exec);
const kinds: readonly [string, (folder: string) => ImageTools, boolean][] = [
  ["without root and namespaces", () => plainTools(exec), false],
  ["without root", (folder) => confinedImageTools(folder, { as: "user" }), !canNamespace],
  ["confined", (folder) => confinedImageTools(folder), !CAN_CONFINE],
];

describe.each(kinds)("images that a guest has written, read by tools %s", (name, toolsAt, isMissing) => {
  let root: string;
  let plugin: DirPlugin;
  let tools: ImageTools;
  let secret: string;

  beforeEach(async () => {
    root = mkdtempSync(join(tmpdir(), "gpve-attack-"));
    chmodSync(root, 0o755);
    tools = toolsAt(root);
    const options = { path: join(root, "s"), content: "images,import,iso" };
    plugin = new DirPlugin({
      ...plainPlugins(),
      definition: newStorageDefinition("s", "dir", options),
      tools,
    });
    await plugin.activate();
    secret = join(root, "secret");
    writeFileSync(secret, SECRET.repeat(2048).padEnd(MIB, "x"), { mode: 0o600 });
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  const disk = (): Promise<string> => plugin.alloc({ vmid: 100, format: "qcow2", size: MIB });
  const forge = (volname: string, ...args: string[]): Promise<unknown> =>
    exec("qemu-img", [...args, plugin.path(volname)]);

  const headers: readonly [string, (volname: string) => Promise<unknown>][] = [
    ["a backing file", (volname) => forge(volname, "rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", secret)],
    [
      "a relative backing file",
      (volname) => forge(volname, "rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", "../../../secret"),
    ],
    [
      "a backing file in JSON",
      (volname) => {
        const name = `json:{"driver":"raw","file":{"driver":"file","filename":"${secret}"}}`;
        return forge(volname, "rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", name);
      },
    ],
    [
      "a backing file over the network",
      (volname) =>
        forge(volname, "rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", "nbd+unix:///x?socket=/run/x"),
    ],
    [
      "a chain of images of its own that ends there",
      async (volname) => {
        const middle = join(root, "middle.qcow2");
        await exec("qemu-img", ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", secret, middle]);
        await forge(volname, "rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b", middle);
      },
    ],
    [
      "its data in another file",
      async (volname) => {
        const path = plugin.path(volname);
        const made = join(root, "made.qcow2");
        const options = `data_file=${secret},data_file_raw=on`;
        const content = readFileSync(secret);
        await exec("qemu-img", ["create", "-q", "-f", "qcow2", "-o", options, made, "1M"]);
        writeFileSync(secret, content);
        renameSync(made, path);
      },
    ],
    [
      "a link in the image's place",
      async (volname) => {
        rmSync(plugin.path(volname));
        await Promise.resolve(symlinkSync(secret, plugin.path(volname)));
      },
    ],
  ];

  const readers: readonly [string, (volname: string) => Promise<unknown>][] = [
    [
      "full clone",
      async (volname) => plugin.importFrom(await plugin.attach(volname), { vmid: 101, format: "raw" }),
    ],
    [
      "clone of a snapshot",
      async (volname) =>
        plugin.importFrom(await plugin.attach(volname, { snapshot: "s1" }), { vmid: 101, format: "raw" }),
    ],
    ["template", (volname) => plugin.createBase(volname)],
    ["snapshot", (volname) => plugin.snapshot(volname, "s2")],
    ["rollback", (volname) => plugin.rollback(volname, "s1")],
    ["resize", (volname) => plugin.resize(volname, 2 * MIB)],
    ["export", (volname) => plugin.exportStream(volname)],
  ];

  it.skipIf(isMissing).each(headers)("naming %s are read by nobody", async (_what, write) => {
    const volname = await disk();
    await plugin.snapshot(volname, "s1");
    await write(volname);
    for (const [reader, read] of readers) {
      await expect(read(volname), reader).rejects.toThrow(
        /the image is refused: it (builds on a backing file that is not its own|keeps its data in another file)|is a link where/,
      );
      expect(await plugin.list({ vmid: 101 }), reader).toEqual([]);
    }
  });

  it.skipIf(isMissing)("of format raw stay a row of bytes, whatever they begin with", async () => {
    const volname = await plugin.alloc({ vmid: 100, format: "raw", size: MIB });
    const forged = join(root, "forged.qcow2");
    await exec("qemu-img", ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", secret, forged]);
    const bytes = readFileSync(forged);
    writeFileSync(plugin.path(volname), Buffer.concat([bytes, Buffer.alloc(MIB)]).subarray(0, MIB));
    const clone = await plugin.importFrom(await plugin.attach(volname), { vmid: 101, format: "qcow2" });
    const read = await readImage(plugin.path(clone), "qcow2", 0, MIB);
    expect(Buffer.from(read).equals(readFileSync(plugin.path(volname)))).toBe(true);
    const socket = join(root, "n");
    const first = await withImage(
      { tools, clock: systemClock },
      { node: fileNode(plugin.path(volname)), format: "raw", access: "ro", socket },
      (image) => image.read(0, 512),
    );
    expect(Buffer.from(first).equals(bytes.subarray(0, 512))).toBe(true);
  });

  it.skipIf(isMissing)("with the base that the records name are read through it", async () => {
    const first = await disk();
    await writeImage(plugin.path(first), "qcow2", 0, Buffer.alloc(16, 1));
    const second = await plugin.cloneLinked(await plugin.createBase(first), 200);
    await writeImage(plugin.path(second), "qcow2", 4096, Buffer.alloc(16, 2));
    const linked = await plugin.cloneLinked(await plugin.createBase(second), 300);
    await plugin.resize(linked, 2 * MIB);
    const source = await plugin.attach(linked);
    expect(source.backing?.map(({ format }) => format)).toEqual(["qcow2", "qcow2"]);
    const copy = await plugin.importFrom(source, { vmid: 301, format: "raw" });
    const bytes = readFileSync(plugin.path(copy));
    expect([bytes[0], bytes[4096], bytes[8192], bytes.length]).toEqual([1, 2, 0, 2 * MIB]);
    const served = await withImage(
      { tools, clock: systemClock },
      { ...source, access: "ro", socket: join(root, "n") },
      (image) => image.read(0, 8192),
    );
    expect(Buffer.from(served).equals(bytes.subarray(0, 8192))).toBe(true);
    // The base's own header was true when it became one; should it change, nobody follows it.
    const base = join(root, "s/images/200/base-200-disk-0.qcow2");
    chmodSync(base, 0o644);
    await exec("qemu-img", ["rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", secret, base]);
    await expect(plugin.attach(linked)).rejects.toThrow("not its own");
  });

  it.skipIf(isMissing)(
    "that lie about it between our look and the tool's are not followed either",
    async () => {
      const volname = await disk();
      const path = plugin.path(volname);
      await forge(volname, "rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", secret);
      const target = join(root, "t");
      writeFileSync(target, "");
      const files = [
        { path: target, access: "rw" },
        { path, access: "ro" },
      ] as const;
      await tools(
        "qemu-img",
        ["convert", "-O", "raw", imageName({ node: fileNode(path), format: "qcow2" }), target],
        files,
      );
      expect(readFileSync(target).includes("the-secret")).toBe(false);
    },
  );

  // Without namespaces there is nothing to hold a tool that was lied to; the node's status says so.
  it.skipIf(isMissing || name === "without root and namespaces")(
    "that keep their data elsewhere all of a sudden are not followed either",
    async () => {
      const volname = await disk();
      const path = plugin.path(volname);
      const [, forgeData] = headers.find(([what]) => what === "its data in another file") ?? [];
      await forgeData?.(volname);
      const content = readFileSync(secret);
      const target = join(root, "t");
      writeFileSync(target, "");
      const image = imageName({ node: fileNode(path), format: "qcow2" });
      const read = { path, access: "ro" } as const;
      const write = { path: target, access: "rw" } as const;
      for (const [args, files] of [
        [
          ["convert", "-O", "raw", image, target],
          [write, read],
        ],
        [["resize", "-q", image, "2M"], [{ path, access: "rw" }]],
        [["snapshot", "-q", "-c", "s", image], [{ path, access: "rw" }]],
      ] as const)
        await expect(tools("qemu-img", args, files), args[0]).rejects.toThrow("No such file or directory");
      await expect(
        withImage(
          { tools, clock: systemClock },
          { node: fileNode(path), format: "qcow2", access: "ro", socket: join(root, "n") },
          (served) => served.read(0, 512),
        ),
      ).rejects.toThrow();
      expect(readFileSync(target).includes("the-secret")).toBe(false);
      expect(readFileSync(secret).equals(content)).toBe(true);
    },
  );

  it.skipIf(isMissing)("from outside are looked at and copied in the same way", async () => {
    mkdirSync(join(root, "s/import"), { recursive: true });
    const path = join(root, "s/import/a.qcow2");
    await exec("qemu-img", ["create", "-q", "-f", "qcow2", path, "1M"]);
    chmodSync(path, 0o600);
    await plugin.importFrom(await plugin.attach("import/a.qcow2"), { vmid: 101, format: "raw" });
    await exec("qemu-img", ["rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", secret, path]);
    await expect(
      plugin
        .attach("import/a.qcow2")
        .then((source) => plugin.importFrom(source, { vmid: 102, format: "raw" })),
    ).rejects.toThrow("the image is refused");
  });
});
