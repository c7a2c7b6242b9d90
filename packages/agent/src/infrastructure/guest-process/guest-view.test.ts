import { chmodSync, mkdtempSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { guestView, kvmGroups, prepareFile, realPlace } from "./guest-view.ts";

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

  it("is made accessible: its own files by owner, shared ones for reading", async () => {
    const file = join(folder, "f");
    writeFileSync(file, "", { mode: 0o600 });
    const me = process.getuid?.() ?? 0;
    await prepareFile({ path: file, access: "ro" }, me + 1);
    expect(statSync(file).mode & 0o777).toBe(0o604);
    chmodSync(file, 0o400);
    await prepareFile({ path: file, access: "rw" }, me);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await prepareFile({ path: file, access: "ro", owned: true }, me);
    await prepareFile({ path: folder, access: "ro" }, me + 1);
    expect(statSync(folder).mode & 0o005).toBe(0o005);
    await expect(prepareFile({ path: join(folder, "none"), access: "rw" }, me)).rejects.toThrow("none");
  });
});
