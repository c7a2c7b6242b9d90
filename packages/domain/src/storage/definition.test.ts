import { describe, expect, it } from "vitest";
import { isAppError } from "@gpve/contracts/errors.ts";
import {
  changedStorageDefinition,
  contentDirs,
  contentOf,
  contentText,
  defaultStorage,
  isDisabled,
  isShared,
  newStorageDefinition,
  servesNode,
  storageCollection,
  storagePath,
} from "./definition.ts";

describe("storage definitions", () => {
  it("makes a directory storage with PVE's default content", () => {
    const made = newStorageDefinition("d1", "dir", { path: "/srv//d1/", nodes: "n1, n2" });
    expect(made).toEqual({
      storage: "d1",
      type: "dir",
      options: { path: "/srv//d1/", nodes: "n1,n2", content: "images,rootdir" },
    });
    expect(servesNode(made, "n1")).toBe(true);
    expect(servesNode(made, "n3")).toBe(false);
    expect(isShared(made)).toBe(false);
    expect(isDisabled(made)).toBe(false);
    expect(storagePath(made)).toBe("/srv/d1");
  });

  it("has a first storage for every kind of content", () => {
    const local = defaultStorage("/x/storage/local");
    expect([...contentOf(local)].sort()).toEqual(
      ["backup", "images", "import", "iso", "rootdir", "snippets", "vztmpl"].sort(),
    );
    expect(contentText(local)).toBe("backup,images,import,iso,rootdir,snippets,vztmpl");
    expect(storageCollection.decode(JSON.parse(JSON.stringify(local)))).toEqual(local);
    expect(() => storageCollection.decode({ storage: 1 })).toThrow("does not know");
  });

  it("lets directories have persistent volumes of clusters where that is said, and nobody else", () => {
    const made = newStorageDefinition("fast", "dir", { path: "/fast", content: "volumes,images" });
    expect([...contentOf(made)]).toEqual(["images", "volumes"]);
    expect(contentDirs({ ...made, options: { "content-dirs": "volumes=pvs" } })).toEqual({ volumes: "pvs" });
    expect(() => newStorageDefinition("n", "nfs", { server: "x", export: "/x", content: "volumes" })).toThrow(
      "storage does not support content type 'volumes'",
    );
  });

  it.each([
    ["dir", {}, "missing value for required option 'path'"],
    ["dir", { path: "/a b" }, "illegal path for directory storage: /a b"],
    ["dir", { path: "/a/../b" }, "illegal path for directory storage: /a/../b"],
    ["dir", { path: "/a", vgname: "x" }, "unexpected property 'vgname'"],
    ["dir", { path: "/a", content: "images,foo" }, "storage does not support content type 'foo'"],
    ["dir", { path: "/a", content: "images,none" }, "unable to combine 'none' with other content types"],
    ["dir", { path: "/a", "content-dirs": "iso=../x" }, "invalid content-dirs entry 'iso=../x'"],
    ["dir", { path: "/a", "content-dirs": "foo=x" }, "invalid content-dirs entry 'foo=x'"],
    ["dir", { path: "/" }, "illegal path for directory storage: /"],
    ["nfs", { server: "x" }, "missing value for required option 'export'"],
    ["what", {}, "unknown section type 'what'"],
  ])("refuses %s %j", (type, given, text) => {
    expect(() => newStorageDefinition("s1", type, given as Record<string, string>)).toThrow(text);
  });

  it("says of known types without a plugin that they are not supported, after checking them", () => {
    try {
      newStorageDefinition("n1", "zfspool", { pool: "tank" });
      expect.unreachable();
    } catch (err) {
      expect(isAppError(err, "feature.unsupported")).toBe(true);
    }
    expect(() => newStorageDefinition("d", "dir", { path: "/a", "snapshot-as-volume-chain": true })).toThrow(
      "not supported",
    );
  });

  it("changes what may change and nothing else", () => {
    const before = newStorageDefinition("d1", "dir", { path: "/srv/d1", shared: true, content: "iso" });
    expect(isShared(before)).toBe(true);
    const after = changedStorageDefinition(before, { content: "backup,iso", disable: true }, ["shared"]);
    expect(after.options).toEqual({ path: "/srv/d1", content: "backup,iso", disable: true });
    expect(() => changedStorageDefinition(before, { path: "/x" }, [])).toThrow(
      "can't change value of fixed parameter 'path'",
    );
    expect(() => changedStorageDefinition(before, {}, ["path"])).toThrow(
      "unable to delete required option 'path'",
    );
    expect(() => changedStorageDefinition(before, {}, ["snapshot-as-volume-chain"])).toThrow(
      "unable to delete fixed option",
    );
    expect(() => changedStorageDefinition(before, { shared: true }, ["shared"])).toThrow(
      "cannot set and delete property 'shared' at the same time!",
    );
    expect(() => changedStorageDefinition(before, {}, ["vgname"])).toThrow("no such option 'vgname'");
    expect(changedStorageDefinition(before, {}, ["format"])).toEqual(before);
    expect(() => changedStorageDefinition(before, { pool: "x" }, [])).toThrow("unexpected property 'pool'");
    expect(changedStorageDefinition(before, {}, ["content"]).options["content"]).toBe("images,rootdir");
  });

  it("reads content-dirs", () => {
    const made = newStorageDefinition("d1", "dir", { path: "/a", "content-dirs": "iso=/isos,backup=b/c" });
    expect(contentDirs(made)).toEqual({ iso: "isos", backup: "b/c" });
    const twice = newStorageDefinition("d1", "dir", { path: "/a", "content-dirs": "iso=a,backup=c=d,iso=b" });
    expect(twice.options["content-dirs"]).toBe("backup=c=d,iso=b");
    expect(contentDirs(twice)).toEqual({ iso: "b", backup: "c=d" });
  });

  it("takes an empty content list as none", () => {
    expect(newStorageDefinition("d1", "dir", { path: "/a", content: "" }).options["content"]).toBe("none");
  });
});
