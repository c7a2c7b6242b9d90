import { describe, expect, it } from "vitest";
import { newStorageDefinition, type StorageDefinition } from "./definition.ts";
import { overlapOf, refuseClaimedStorage } from "./protected-paths.ts";

const DATA = "/home/me/gpve";
const dir = (storage: string, path: string, more: Record<string, string> = {}): StorageDefinition =>
  newStorageDefinition(storage, "dir", { path, content: "images,iso,snippets,backup", ...more });
const define = (definition: StorageDefinition, ...others: StorageDefinition[]): (() => void) => {
  return () => refuseClaimedStorage(definition, DATA, [...others, definition]);
};

describe("a storage in a place that is not its own", () => {
  it.each([
    ["/etc", "is /etc"],
    ["/etc/gpve/isos", "lies in /etc"],
    ["/var", "holds /var/run"],
    ["/boot/isos", "lies in /boot"],
    ["/root", "is /root"],
    ["/proc/1/root", "lies in /proc"],
    ["/dev/shm", "lies in /dev"],
    ["/run/user/1000", "lies in /run"],
    ["/var/lib", "holds /var/lib/gpve"],
    ["/var/lib/gpve/agent", "lies in /var/lib/gpve"],
    ["/boot//efi/", "lies in /boot"],
    ["/sys", "is /sys"],
    ["/home/me", "holds /home/me/gpve, the data directory"],
    [DATA, "is /home/me/gpve"],
    [`${DATA}/storage`, "lies in /home/me/gpve"],
    [`${DATA}/storage/other`, "lies in /home/me/gpve"],
    [`${DATA}/storage/local/images`, "lies in /home/me/gpve"],
  ])("is refused: %s", (path, why) => {
    expect(define(dir("x", path))).toThrow(why);
    expect(define(dir("x", path))).toThrow("choose a directory apart from it");
  });

  it("is none of those that gpve makes itself, nor any other place", () => {
    for (const path of [
      `${DATA}/storage/local`,
      `${DATA}/storage/shared`,
      "/var/lib/gpve/storage/local",
      "/srv/a",
      "/etcetera",
      "/var/lib/vz",
      "/home/me/gpve2",
    ])
      expect(define(dir("x", path))).not.toThrow();
  });

  it("is refused where another storage keeps its volumes", () => {
    const first = dir("first", "/srv/first");
    expect(define(dir("x", "/srv/first"), first)).toThrow("where storage 'first' keeps its volumes");
    expect(define(dir("x", "/srv/first/images/100"), first)).toThrow("lies in /srv/first/images");
    const holder = dir("x", "/srv", { "content-dirs": "iso=first", content: "iso" });
    expect(define(holder, first)).toThrow("it holds /srv/first/dump");
    // Beside each other, for other types of content, or on other nodes: as it was.
    expect(define(dir("x", "/srv/first", { content: "vztmpl" }), first)).not.toThrow();
    expect(define(dir("x", "/srv/second"), first)).not.toThrow();
    const apart = dir("first", "/srv/first", { nodes: "n1" });
    expect(define(dir("x", "/srv/first", { nodes: "n2,n3" }), apart)).not.toThrow();
    expect(define(dir("x", "/srv/first", { nodes: "n2,n1" }), apart)).toThrow("keeps its volumes");
  });

  it("is refused when its own folders lie in each other", () => {
    expect(define(dir("x", "/srv/x", { "content-dirs": "snippets=images/100" }))).toThrow(
      "give each a directory of its own",
    );
    expect(define(dir("x", "/srv/x", { "content-dirs": "snippets=images" }))).toThrow(
      "uses directory /srv/x/images for multiple content types",
    );
    expect(define(dir("x", "/srv/x", { "content-dirs": "iso=.", content: "iso" }))).not.toThrow();
  });

  it("is told apart by whole names", () => {
    expect(overlapOf("/", "/etc")).toBe("holds");
    expect(overlapOf("/etc", "/")).toBe("lies in");
    expect(overlapOf("/a/bc", "/a/b")).toBeUndefined();
  });
});
