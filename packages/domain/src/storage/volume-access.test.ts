import { describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { AccessView } from "../request/context.ts";
import {
  mayUseVolume,
  protectedLimit,
  requireHostPathAccess,
  requireVolumeAccess,
  requireVolumeRemoval,
} from "./volume-access.ts";

function viewOf(rights: Readonly<Record<string, readonly string[]>>): AccessView {
  const has: AccessView["has"] = (path, wanted, mode = "all") =>
    wanted[mode === "any" ? "some" : "every"]((each) => rights[path]?.includes(each) === true);
  return {
    privileges: () => new Map(),
    has,
    require: (path, wanted, mode) => {
      if (!has(path, wanted, mode)) {
        throw new AppError("access.denied", `Permission check failed (${path}, ${wanted.join("|")})`);
      }
    },
  };
}
const disk = { storage: "s", volid: "s:100/vm-100-disk-0.raw", type: "images", vmid: 100 } as const;
const iso = { storage: "s", volid: "s:iso/a.iso", type: "iso" } as const;
const backup = { storage: "s", volid: "s:backup/x", type: "backup", vmid: 100 } as const;
const snippet = { storage: "s", volid: "s:snippets/x", type: "snippets" } as const;

describe("access to volumes", () => {
  it("lets those who own the storage do everything", () => {
    const all = viewOf({ "/storage/s": ["Datastore.Allocate"] });
    for (const volume of [disk, iso, backup, snippet]) expect(mayUseVolume(all, volume)).toBe(true);
  });

  it("shows images of media to those who may see the storage", () => {
    expect(mayUseVolume(viewOf({ "/storage/s": ["Datastore.Audit"] }), iso)).toBe(true);
    expect(mayUseVolume(viewOf({ "/storage/s": ["Datastore.AllocateSpace"] }), iso)).toBe(true);
    expect(mayUseVolume(viewOf({}), iso)).toBe(false);
  });

  it("asks for the guest's rights on disks and backups", () => {
    const rights = { "/storage/s": ["Datastore.Audit", "Datastore.AllocateSpace"] };
    expect(mayUseVolume(viewOf(rights), disk)).toBe(false);
    expect(mayUseVolume(viewOf({ ...rights, "/vms/100": ["VM.Config.Disk"] }), disk)).toBe(true);
    expect(mayUseVolume(viewOf(rights), backup)).toBe(false);
    expect(mayUseVolume(viewOf({ ...rights, "/vms/100": ["VM.Backup"] }), backup)).toBe(true);
    expect(() => requireVolumeAccess(viewOf(rights), snippet)).toThrow(
      "missing privileges to access s:snippets/x",
    );
  });

  it("lets a guest use its own volumes, of the type that is needed", () => {
    expect(() => requireVolumeAccess(viewOf({}), disk, { forVmid: 100 })).not.toThrow();
    expect(() => requireVolumeAccess(viewOf({}), disk, { forVmid: 100, as: "rootdir" })).not.toThrow();
    expect(() => requireVolumeAccess(viewOf({}), disk, { as: "iso" })).toThrow(
      "unable to use volume s:100/vm-100-disk-0.raw - content type needs to be 'iso'",
    );
  });

  it("asks for more to remove than to use", () => {
    const rights = { "/storage/s": ["Datastore.AllocateSpace"], "/vms/100": ["VM.Backup"] };
    expect(() => requireVolumeRemoval(viewOf(rights), backup)).not.toThrow();
    expect(() => requireVolumeRemoval(viewOf(rights), iso)).toThrow("(/storage/s, Datastore.Allocate)");
  });

  it("lets as many backups be protected as the storage says, or as its user may decide", () => {
    const owner = viewOf({ "/storage/s": ["Datastore.Allocate"] });
    const guest = viewOf({ "/storage/s": ["Datastore.AllocateSpace"] });
    const storage = (options: Record<string, number>) => ({ storage: "s", type: "dir", options });
    expect(protectedLimit(storage({}), owner)).toBe(-1);
    expect(protectedLimit(storage({}), guest)).toBe(5);
    expect(protectedLimit(storage({ "max-protected-backups": 0 }), owner)).toBe(0);
    expect(protectedLimit(storage({ "max-protected-backups": -1 }), guest)).toBe(-1);
  });

  it("leaves paths of the host to root", () => {
    expect(() => requireHostPathAccess({ userid: "root@pam", authid: "root@pam" })).not.toThrow();
    expect(() => requireHostPathAccess({ userid: "joe@pve", authid: "joe@pve" })).toThrow(
      "Only root can pass arbitrary filesystem paths.",
    );
  });
});
