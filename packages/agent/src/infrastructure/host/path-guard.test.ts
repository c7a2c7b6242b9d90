import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  defaultStorage,
  newStorageDefinition,
  type StorageDefinition,
} from "@gpve/domain/storage/definition.ts";
import { mappedDirectories } from "@gpve/domain/mapping/mapped-directories.ts";
import { newMapping, type Mapping } from "@gpve/domain/mapping/mapping.ts";
import { DirPlugin } from "../storage/dir/dir-plugin.ts";
import { PathGuard } from "./path-guard.ts";
import { plainPlugins } from "../../testing/plain-plugins.ts";

let root: string;
let storages: StorageDefinition[];
let mounts: string[];
let shares: Mapping[];
let guard: PathGuard;
const data = (): string => join(root, "data");
const dir = (storage: string, path: string, more: Record<string, string> = {}): StorageDefinition =>
  newStorageDefinition(storage, "dir", { path, content: "images,snippets", ...more });
const at = (name: string): string => join(root, name);
const share = (path: string): void => {
  shares = [newMapping("dir", "share", { map: [`node=n2,path=/srv`, `node=n1,path=${path}`] })];
};

beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "gpve-guard-")));
  for (const name of ["data/storage/local", "data/agent", "free", "disk"])
    mkdirSync(at(name), { recursive: true });
  storages = [defaultStorage(join(data(), "storage/local"))];
  shares = [];
  mounts = ["1 0 8:1 / / rw - ext4 /dev/a rw", "2 1 0:5 / /proc rw - proc proc rw"];
  guard = new PathGuard({
    node: "n1",
    dataDir: data(),
    storages: () => storages,
    mapped: () => mappedDirectories(shares, (node) => node === "n1"),
    mounts: async () => mounts.join("\n"),
  });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const used = (definition: StorageDefinition): Promise<void> => guard.requireStorage(definition, "used");

describe("a storage's real place", () => {
  it("may be anywhere but where others are, and below the data directory where gpve made it", async () => {
    await used(dir("x", at("free/not/there/yet")));
    await used(storages[0] as StorageDefinition);
    await expect(used(dir("x", join(data(), "agent")))).rejects.toThrow("the data directory of gpve");
  });

  it("is found behind links, also one that came later and one in the middle of the path", async () => {
    const definition = dir("x", at("free/later/on"));
    await used(definition);
    symlinkSync("/etc", at("free/later"));
    await expect(used(definition)).rejects.toThrow(
      `storage 'x' cannot use ${at("free/later/on")} (which really is /etc/on): it lies in /etc`,
    );
    symlinkSync(data(), at("link"));
    await expect(used(dir("y", join(root, "link/secrets")))).rejects.toThrow("the data directory of gpve");
  });

  it("is found behind links of single kinds of content", async () => {
    symlinkSync("/root", at("free/snippets"));
    await expect(used(dir("x", at("free")))).rejects.toThrow("(which really is /root): it is /root");
    await used(dir("x", at("free"), { content: "images" }));
    // The folder of gpve's own storage is its own, what it links to is not.
    symlinkSync(join(data(), "agent"), join(data(), "storage/local/snippets"));
    await expect(used(storages[0] as StorageDefinition)).rejects.toThrow("the data directory of gpve");
  });

  it("is seen through bind mounts", async () => {
    mounts.push(`3 1 8:1 /etc/ssl ${at("disk")} rw - ext4 /dev/a rw`);
    await expect(used(dir("x", at("disk")))).rejects.toThrow("it lies in /etc");
    mounts[2] = `3 1 8:1 / ${at("disk")} rw - ext4 /dev/a rw`;
    await expect(used(dir("x", at("disk")))).rejects.toThrow("it holds ");
    mounts[2] = `3 1 8:1 ${data()}/agent ${at("free/in\\040side")} rw - ext4 /dev/a rw`;
    await expect(used(dir("x", at("free")))).rejects.toThrow("it holds ");
    mounts[2] = `3 1 8:2 /etc ${at("disk")} rw - ext4 /dev/b rw`;
    await used(dir("x", at("disk")));
    mounts[2] = `3 1 0:99 / ${at("disk")} rw - proc proc rw`;
    await expect(used(dir("x", at("disk")))).rejects.toThrow("a file system of the kernel (proc)");
  });

  it("is seen through bind mounts at single kinds of content, also of the same file system", async () => {
    mkdirSync(at("disk/snippets"));
    mounts.push(`3 1 8:1 /etc ${at("disk/snippets")} rw - ext4 /dev/a rw`);
    await expect(used(dir("x", at("disk"), { content: "snippets" }))).rejects.toThrow("it holds /etc");
    // In the folder of gpve's own storage its name says nothing against it, what lies behind it does.
    const [local] = storages as [StorageDefinition];
    const iso = join(data(), "storage/local/template/iso");
    mounts[2] = `3 1 8:1 ${data()}/agent ${iso} rw - ext4 /dev/a rw`;
    await expect(used(local)).rejects.toThrow("the data directory of gpve");
    mounts[2] = `3 1 8:2 /media ${iso} rw - ext4 /dev/b rw`;
    await used(local);
  });

  it("is seen where something of it is mounted inside what is claimed", async () => {
    storages.push(dir("first", at("free")));
    mounts.push(
      `3 1 8:2 / ${at("disk")} rw - ext4 /dev/b rw`,
      `4 1 8:2 /volumes ${at("free/images/100")} rw - ext4 /dev/b rw`,
    );
    const defined = (definition: StorageDefinition): Promise<void> =>
      guard.requireStorage(definition, "defined");
    for (const definition of [
      dir("second", at("disk/volumes")),
      dir("second", at("disk/volumes/inside")),
      dir("second", at("disk"), { content: "images", "content-dirs": "images=volumes" }),
    ])
      await expect(defined(definition)).rejects.toThrow("where storage 'first' keeps its volumes");
    await defined(dir("second", at("disk/apart")));
    await defined(dir("second", at("disk")));
    // As container runtimes mount /etc/hosts: single files of a disk make no part of /etc of it.
    mounts.push(`5 1 8:2 /containers/hosts /etc/hosts rw - ext4 /dev/b rw`);
    await defined(dir("second", at("disk")));
  });

  it("is not in a directory that guests have, and none of its folders is", async () => {
    mkdirSync(at("free/share"));
    share(at("free/share"));
    const owner = "which guests have as directory mapping 'share'";
    for (const definition of [
      dir("x", at("free/share")),
      dir("x", at("free/share/inside")),
      dir("x", at("free"), { content: "images", "content-dirs": "images=share" }),
      dir("x", at("free"), { content: "images", "content-dirs": "images=share/deep" }),
    ])
      for (const when of ["defined", "used"] as const)
        await expect(guard.requireStorage(definition, when), when).rejects.toThrow(owner);
    symlinkSync(at("free/share"), at("disk/link"));
    await expect(used(dir("x", at("disk/link/inside")))).rejects.toThrow(owner);
    mkdirSync(at("disk/x"));
    mounts.push(`3 1 8:1 ${at("free/share")} ${at("disk/x/images")} rw - ext4 /dev/a rw`);
    await expect(used(dir("x", at("disk/x")))).rejects.toThrow(owner);
    share(at("disk/z/images/100"));
    await expect(used(dir("x", at("disk/z")))).rejects.toThrow(owner);
    await used(dir("x", at("disk/y")));
    // A directory beside the folders is nobody's business but its own.
    share(at("disk/y/beside"));
    await used(dir("x", at("disk/y")));
  });

  it("is not among another storage's volumes; the one that was led there is refused, not the other", async () => {
    const first = dir("first", at("free"));
    const second = dir("second", at("disk"));
    storages.push(first, second);
    mkdirSync(at("free/images"));
    symlinkSync(at("free/images"), at("disk/snippets"));
    await expect(used(second)).rejects.toThrow("where storage 'first' keeps its volumes of type images");
    await used(first);
    await expect(guard.requireStorage(dir("third", at("free/images/100")), "defined")).rejects.toThrow(
      "where storage 'first'",
    );
  });

  it("is asked for before anything is made there, by the plugin itself", async () => {
    symlinkSync(data(), at("link"));
    const definition = dir("x", join(root, "link/new"));
    const plugin = new DirPlugin({ ...plainPlugins(), definition, guard: used });
    await expect(plugin.activate()).rejects.toThrow("the data directory of gpve");
    expect(() => realpathSync(join(data(), "new"))).toThrow("ENOENT");
  });
});

describe("a directory for guests", () => {
  const wanted = (path: string): Promise<void> => guard.requireDirectory("directory mapping 'share'", path);

  it("is neither the host's nor a storage's", async () => {
    await wanted(at("free"));
    await expect(wanted("/")).rejects.toThrow("directory mapping 'share' cannot use /: it holds");
    await expect(wanted(root)).rejects.toThrow("it holds");
    await expect(wanted(join(data(), "storage/local/images/100"))).rejects.toThrow("it lies in");
    storages.push(dir("s", at("disk")));
    symlinkSync(at("disk"), at("free/link"));
    await expect(wanted(at("free/link"))).rejects.toThrow("where storage 's' keeps its volumes");
    storages.push(dir("t", at("free/deep/t"), { content: "none" }));
    for (const path of ["free", "free/deep/t"])
      await expect(wanted(at(path))).rejects.toThrow("the directory of storage 't'");
    await wanted(at("free/deep/t/beside"));
  });
});
