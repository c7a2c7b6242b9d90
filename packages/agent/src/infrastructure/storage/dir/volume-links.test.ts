// Whoever can write into a storage's directory (its server, an account of the host) can put links there. None of them
// makes a file of the host a volume, whatever is done with it.
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newStorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { ContentType } from "@gpve/domain/storage/content.ts";
import { exec } from "@gpve/kit/exec.ts";
import { DirPlugin } from "./dir-plugin.ts";
import { plainPlugins } from "../../../testing/plain-plugins.ts";

const ALL = "images,vztmpl,iso,backup,snippets,import";
const BACKUP = "vzdump-qemu-100-2024_01_02-03_04_05.vma";
const SECRET = "the secret of the host\n";

let root: string;
let plugin: DirPlugin;
let secret: string;
const at = (name: string): string => join(root, "s", name);

beforeEach(async () => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "gpve-links-")));
  const definition = newStorageDefinition("s", "dir", { path: join(root, "s"), content: ALL });
  plugin = new DirPlugin({ ...plainPlugins(), definition });
  await plugin.activate();
  secret = join(root, "secret");
  writeFileSync(secret, SECRET, { mode: 0o600 });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function link(name: string, target: string): void {
  mkdirSync(dirname(at(name)), { recursive: true });
  symlinkSync(target, at(name));
}

const volumes: readonly [ContentType, string, string][] = [
  ["iso", "iso/a.iso", "template/iso/a.iso"],
  ["vztmpl", "vztmpl/a.tar.gz", "template/cache/a.tar.gz"],
  ["snippets", "snippets/a.yml", "snippets/a.yml"],
  ["import", "import/a.raw", "import/a.raw"],
  ["import", "import/a.qcow2", "import/a.qcow2"],
  ["import", "import/a.ova", "import/a.ova"],
  ["import", "import/a.ovf", "import/a.ovf"],
  ["backup", `backup/${BACKUP}`, `dump/${BACKUP}`],
  ["images", "100/vm-100-disk-0.raw", "images/100/vm-100-disk-0.raw"],
];

describe.each(volumes)("a link of type %s named %s", (content, volname, name) => {
  const isLink = /is a link/;

  it("is no way to a file of the host", async () => {
    link(name, secret);
    await expect(plugin.file(volname)).rejects.toThrow(isLink);
    await expect(plugin.info(volname)).rejects.toThrow(isLink);
    if (!/\.(?:ova|ovf)$/.test(name)) await expect(plugin.attach(volname)).rejects.toThrow(isLink);
    expect(await plugin.list({ content: [content] })).toEqual([]);
    // It can be removed, and nothing else is.
    expect(await plugin.free(volname)).toBe(true);
    expect(statSync(secret).size).toBe(SECRET.length);
  });

  it("is no way into folders of the storage where others' volumes lie", async () => {
    const disk = join(root, "s/images/200/vm-200-disk-0.raw");
    mkdirSync(dirname(disk), { recursive: true });
    writeFileSync(disk, SECRET, { mode: 0o600 });
    link(name, disk);
    await expect(plugin.file(volname)).rejects.toThrow(isLink);
    const rows = await plugin.list({ content: [content] });
    expect(rows.filter((row) => row.volname === volname)).toEqual([]);
  });
});

describe("links", () => {
  it("to a file of the same folder are that file", async () => {
    writeFileSync(at("template/iso/debian-12.iso"), "disc");
    link("template/iso/debian.iso", "debian-12.iso");
    expect(await plugin.file("iso/debian.iso")).toBe(at("template/iso/debian-12.iso"));
    expect(await plugin.attach("iso/debian.iso")).toMatchObject({
      node: { filename: at("template/iso/debian-12.iso") },
    });
    expect(await plugin.info("iso/debian.iso")).toMatchObject({ size: 4 });
    expect((await plugin.list({ content: ["iso"] })).map(({ volname }) => volname)).toEqual([
      "iso/debian-12.iso",
      "iso/debian.iso",
    ]);
  });

  it("in place of a whole folder are judged with the storage, by what was asked when it was defined", async () => {
    mkdirSync(join(root, "media"));
    writeFileSync(join(root, "media/a.iso"), "disc");
    rmSync(at("template/iso"), { recursive: true });
    link("template/iso", join(root, "media"));
    expect(await plugin.file("iso/a.iso")).toBe(at("template/iso/a.iso"));
    const definition = newStorageDefinition("s", "dir", { path: join(root, "s"), content: ALL });
    const guard = (): Promise<void> => Promise.reject(new Error("it lies in /etc"));
    const guarded = new DirPlugin({ ...plainPlugins(), definition, guard });
    await expect(guarded.file("iso/a.iso")).rejects.toThrow("it lies in /etc");
    await expect(guarded.attach("iso/a.iso")).rejects.toThrow("it lies in /etc");
  });

  it("in place of a guest's folder lead to no disk of another guest", async () => {
    const volname = await plugin.alloc({ vmid: 200, format: "raw", size: 4096 });
    renameSync(at("images/200/vm-200-disk-0.raw"), at("images/200/vm-100-disk-0.raw"));
    symlinkSync("200", at("images/100"));
    expect(volname).toBe("200/vm-200-disk-0.raw");
    await expect(plugin.attach("100/vm-100-disk-0.raw")).rejects.toThrow("is a link");
    await expect(plugin.resize("100/vm-100-disk-0.raw", 8192)).rejects.toThrow("is a link");
    expect(await plugin.list({ vmid: 100 })).toEqual([]);
  });

  it("beside a backup are neither read nor written as its notes", async () => {
    writeFileSync(at(`dump/${BACKUP}`), "backup");
    for (const suffix of [".notes", ".notes.new", ".protected"]) link(`dump/${BACKUP}${suffix}`, secret);
    expect(await plugin.notes(`backup/${BACKUP}`)).toBe("");
    const [row] = await plugin.list({ content: ["backup"] });
    expect(row?.notes).toBeUndefined();
    await plugin.setNotes(`backup/${BACKUP}`, "mine");
    await plugin.setProtected(`backup/${BACKUP}`, true);
    expect(await plugin.notes(`backup/${BACKUP}`)).toBe("mine");
    expect(statSync(secret).size).toBe(SECRET.length);
  });

  it("are not the only thing that is no volume: neither are pipes and devices", async () => {
    await exec("mkfifo", [at("template/iso/a.iso")]);
    chmodSync(at("template/iso/a.iso"), 0o644);
    await expect(plugin.file("iso/a.iso")).rejects.toThrow("is no plain file");
    await expect(plugin.attach("iso/a.iso")).rejects.toThrow("is no plain file");
  });
});
