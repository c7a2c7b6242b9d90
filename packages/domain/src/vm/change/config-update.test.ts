import { describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { notSet, readConfigUpdate, stageUpdate, updateText, withDiscardedState } from "./config-update.ts";
import { emptyVmConfig, type VmConfig } from "../config/vm-config.ts";

const config: VmConfig = {
  ...emptyVmConfig,
  digest: "abc",
  values: { memory: "1024", net0: "virtio" },
  pending: { cores: "2", delete: "net0" },
};

function errorsOf(params: Record<string, unknown>): unknown {
  try {
    readConfigUpdate(params);
  } catch (error) {
    return error instanceof AppError ? (error.errors ?? error.message) : error;
  }
  return undefined;
}

describe("a change of the configuration", () => {
  it("is read from checked parameters", () => {
    expect(
      readConfigUpdate({
        node: "n1",
        vmid: 100,
        cores: 4,
        onboot: true,
        cdrom: "none",
        cpuunits: 262144,
        delete: "net1 net2",
        revert: "agent",
        digest: "abc",
        force: true,
        skiplock: true,
        background_delay: 5,
      }),
    ).toEqual({
      set: { cores: "4", onboot: "1", ide2: "none,media=cdrom", cpuunits: "10000" },
      delete: ["net1", "net2"],
      revert: ["agent"],
      digest: "abc",
      force: true,
      skiplock: true,
      backgroundDelaySeconds: 5,
    });
  });

  it("knows the CD drive by its old name", () => {
    expect(readConfigUpdate({ delete: "cdrom" }).delete).toEqual(["ide2"]);
    expect(readConfigUpdate({ cdrom: "none,media=cdrom", ide2: "x:1" }).set).toEqual({
      ide2: "none,media=cdrom",
    });
  });

  it("is told in the log of its task, without what is secret", () => {
    const update = readConfigUpdate({
      name: "a",
      cipassword: "s3cret",
      delete: "net0,scsi9",
      revert: "cores",
      force: true,
      skiplock: true,
      digest: "abc",
    });
    expect(updateText(update)).toBe(
      "-cipassword <hidden> -delete net0,scsi9 -force 1 -name a -revert cores -skiplock 1",
    );
    expect(notSet(config, update)).toEqual(["scsi9"]);
  });

  it("puts no card on the bridge of a virtual cluster", () => {
    expect(() => readConfigUpdate({ net0: "virtio,bridge=vmbr0", net1: "e1000,bridge=vcb7" })).toThrow(
      expect.objectContaining({
        errors: { net1: expect.stringContaining("'vcb7' is the bridge of a virtual cluster") as string },
      }),
    );
    expect(readConfigUpdate({ net0: "virtio,bridge=vcbx" }).set["net0"]).toContain("vcbx");
  });

  it("must not contradict itself", () => {
    expect(errorsOf({})).toBe("no options specified");
    expect(errorsOf({ delete: "warp" })).toEqual({ delete: "unknown option 'warp'" });
    expect(errorsOf({ revert: "warp" })).toEqual({ revert: "unknown option 'warp'" });
    expect(errorsOf({ cores: 1, delete: "cores" })).toEqual({
      delete: "you can't use '-cores' and -delete cores' at the same time",
    });
    expect(errorsOf({ cores: 1, revert: "cores" })).toEqual({
      delete: "you can't use '-cores' and -revert cores' at the same time",
    });
    expect(errorsOf({ delete: "cores", revert: "cores" })).toEqual({
      revert: "you can't use '-delete cores' and -revert cores' at the same time",
    });
  });

  it("is staged, with keys that are not set passed over", () => {
    const staged = stageUpdate(
      config,
      readConfigUpdate({ name: "web", delete: "memory,net7", revert: "net0,cores" }),
    );
    expect(staged.pending).toEqual({ name: "web", delete: "memory" });
    expect(stageUpdate(config, readConfigUpdate({ delete: "cores", force: true })).pending).toEqual({
      delete: "!cores,net0",
    });
  });

  it("is refused on another client's configuration, a locked VM, or a balloon too large", () => {
    expect(() => stageUpdate(config, readConfigUpdate({ cores: 1, digest: "other" }))).toThrow(
      "checksum mismatch (file change by other user?)",
    );
    const locked = { ...config, values: { ...config.values, lock: "backup" } };
    expect(() => stageUpdate(locked, readConfigUpdate({ cores: 1 }))).toThrow("VM is locked (backup)");
    expect(
      stageUpdate(locked, readConfigUpdate({ cores: 1, skiplock: true, digest: "abc" })).pending["cores"],
    ).toBe("1");
    expect(() => stageUpdate(config, readConfigUpdate({ balloon: 2048 }))).toThrow(
      "balloon value too large (must be smaller than assigned memory)",
    );
    const odd = { ...config, values: { ...config.values, balloon: "4096" } };
    expect(stageUpdate(odd, readConfigUpdate({ cores: 1 })).pending["cores"]).toBe("1");
    expect(stageUpdate(config, readConfigUpdate({ balloon: 2048, memory: "4096" })).pending["balloon"]).toBe(
      "2048",
    );
  });

  it("throws away what a suspended VM would go on from, with its lock", () => {
    const update = readConfigUpdate({ delete: "vmstate" });
    const suspended = {
      ...config,
      values: { lock: "suspended", vmstate: "l1:v", runningmachine: "pc", runningcpu: "max" },
    };
    expect(withDiscardedState(suspended, update)).toMatchObject({
      delete: ["vmstate", "runningmachine", "runningcpu", "lock"],
      skiplock: true,
    });
    expect(withDiscardedState(config, update)).toMatchObject({ delete: ["vmstate"], skiplock: false });
    const other = readConfigUpdate({ delete: "cores" });
    expect(withDiscardedState(suspended, other)).toBe(other);
  });
});
