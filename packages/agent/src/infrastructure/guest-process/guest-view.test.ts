import {
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { withHeldFile } from "@gpve/kit/held-file.ts";
import { guestView, kvmGroups, prepareFile, realPlace } from "./guest-view.ts";
import { GUESTS_GROUP, shareWithGuests } from "./shared-files.ts";

const isRoot = process.getuid?.() === 0;

describe("what a guest sees", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-view-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it("is its program, its own files and its folder, and the libraries read-only", () => {
    const view = guestView("/usr/bin/env", [{ path: "/srv/disk", access: "rw" }], {
      ioFolder: "/run/x/io",
      kvm: true,
    });
    const targets = new Map(view.binds.map(({ target, access }) => [target, access]));
    expect(targets.get("/usr/bin/env")).toBe("ro");
    expect(targets.get("/srv/disk")).toBe("rw");
    expect(targets.get("/run/x/io")).toBe("rw");
    expect(targets.get("/dev/kvm")).toBe("rw");
    expect(view.binds).toContainEqual({
      source: "/run/x/io",
      target: "/var/run/qemu-server",
      access: "rw",
    });
    expect([...targets.keys()].some((path) => ["/etc", "/usr", "/usr/lib", "/"].includes(path))).toBe(false);
    expect(Array.isArray(kvmGroups())).toBe(true);
  });

  it("holds no link in place of a file that is to be its own", async () => {
    const secret = join(folder, "secret");
    writeFileSync(secret, "", { mode: 0o640 });
    symlinkSync(secret, join(folder, "swtpm"));
    const file = { path: join(folder, "swtpm"), access: "rw", owned: true } as const;
    await expect(prepareFile(file, 0x4000_0001)).rejects.toThrow("is a link where a file should be");
    expect(statSync(secret)).toMatchObject({ uid: process.getuid?.(), mode: 0o100640 });
    // A disk of the host is often named by a link, and so is a disc.
    expect(realPlace({ ...file, ofHost: true })).toBe(realpathSync(secret));
    expect(realPlace({ path: file.path, access: "ro" })).toBe(realpathSync(secret));
    expect(realPlace(file)).toBe(file.path);
  });

  it("gets a folder with all that is in it, when that is said", async () => {
    if (process.getuid?.() !== 0) return expect(process.getuid).toBeDefined();
    mkdirSync(join(folder, "data/wal"), { recursive: true });
    writeFileSync(join(folder, "data/wal/0.wal"), "");
    writeFileSync(join(folder, "other"), "");
    linkSync(join(folder, "other"), join(folder, "data/other"));
    await prepareFile({ path: join(folder, "data"), access: "rw", deep: true }, 0x4000_0001);
    const owners = ["data", "data/wal", "data/wal/0.wal", "other"].map(
      (name) => statSync(join(folder, name)).uid,
    );
    expect(owners).toEqual([0x4000_0001, 0x4000_0001, 0x4000_0001, 0]);
  });

  it("is made accessible: its own files by owner, folders and devices for reading", async () => {
    const file = join(folder, "f");
    writeFileSync(file, "", { mode: 0o400 });
    const me = process.getuid?.() ?? 0;
    await prepareFile({ path: file, access: "rw" }, me);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await prepareFile({ path: file, access: "ro", owned: true }, me);
    await prepareFile({ path: folder, access: "ro" }, me + 1);
    expect(statSync(folder).mode & 0o005).toBe(0o005);
    await expect(prepareFile({ path: join(folder, "none"), access: "rw" }, me)).rejects.toThrow("none");
  });

  describe("together with other guests", () => {
    const UID = 0x4000_0001;
    const facts = (path: string): number[] => {
      const { uid, gid, mode } = statSync(path);
      return [uid, gid, mode & 0o777];
    };
    const made = (mode: number, gid = 0): string => {
      const path = join(folder, "shared");
      writeFileSync(path, "");
      if (isRoot) chownSync(path, 0, gid);
      chmodSync(path, mode);
      return path;
    };

    it.skipIf(!isRoot)("is given by group, whoever could read it before (skipped without root)", async () => {
      for (const [before, after] of [
        [0o600, 0o640],
        [0o640, 0o640],
        // as earlier versions left bases and uploads
        [0o444, 0o440],
        [0o644, 0o640],
        // writing was for the group it had
        [0o664, 0o640],
      ] as const) {
        const path = made(before, 6);
        await prepareFile({ path, access: "ro", owned: false, ofStorage: true }, UID);
        await prepareFile({ path, access: "ro", owned: false, ofStorage: true }, UID + 1);
        expect(facts(path)).toEqual([0, GUESTS_GROUP, after]);
        rmSync(path);
      }
    });

    it.skipIf(!isRoot)("stays the host's where it is (skipped without root)", async () => {
      const path = made(0o644, 6);
      await prepareFile({ path, access: "ro", owned: false }, UID);
      expect(facts(path)).toEqual([0, 6, 0o644]);
    });

    it("is not given by a link that a storage has in its place", async () => {
      const path = made(0o600);
      const before = facts(path);
      symlinkSync(path, join(folder, "a.iso"));
      for (const access of ["ro", "rw"] as const) {
        const linked = { path: join(folder, "a.iso"), access, owned: access === "rw", ofStorage: true };
        expect(realPlace(linked)).toBe(linked.path);
        await expect(prepareFile(linked, UID)).rejects.toThrow("is a link where a file should be");
        expect(facts(path)).toEqual(before);
      }
    });

    it("is for everybody to read where a guest has no such group, or the file cannot have it", async () => {
      const file = { path: made(0o600), access: "ro", owned: false, ofStorage: true } as const;
      await prepareFile(file, UID, false);
      expect(facts(file.path)[2]).toBe(0o604);
      const modes: number[] = [];
      for (const mode of [0o604, 0o640]) {
        chmodSync(file.path, mode);
        await withHeldFile(file.path, (held) => {
          const chown = () => Promise.reject(new Error("EPERM: operation not permitted, chown"));
          const chmod = (wanted: number) => Promise.resolve(void modes.push(wanted));
          return shareWithGuests({ ...held, chown, chmod }, true);
        });
      }
      expect(modes).toEqual([0o644]);
    });
  });
});
