import { describe, expect, it } from "vitest";
import {
  applyAllPending,
  applyPending,
  cleanupPending,
  effectiveValues,
  pendingDeletes,
  pendingRows,
  revertPending,
  stageDelete,
  stageValue,
} from "./pending.ts";
import { emptyVmConfig, type VmConfig } from "../config/vm-config.ts";

const base: VmConfig = {
  ...emptyVmConfig,
  values: { cores: "2", scsi0: "l1:x,size=1G", net0: "virtio", cipassword: "secret" },
};

describe("pending changes", () => {
  it("stages values and removals, each undoing the other", () => {
    const staged = stageDelete(stageValue(base, "cores", "4"), "net0");
    expect(staged.pending).toEqual({ cores: "4", delete: "net0" });
    expect(stageValue(staged, "net0", "e1000").pending).toEqual({ cores: "4", net0: "e1000" });
    const forced = stageDelete(stageDelete(staged, "cores", true), "cores");
    expect(forced.pending).toEqual({ delete: "!cores,net0" });
    expect(pendingDeletes(forced).get("cores")).toEqual({ force: true });
    expect(revertPending(revertPending(forced, "cores"), "net0").pending).toEqual({});
  });

  it("drops what changes nothing", () => {
    const staged = stageDelete(stageDelete(stageValue(base, "cores", "2"), "net7"), "net0");
    expect(cleanupPending(staged).pending).toEqual({ delete: "net0" });
  });

  it("moves staged changes over, keeping the volumes of detached disks", () => {
    const staged = stageDelete(stageValue(base, "cores", "4"), "scsi0");
    expect(applyPending(staged, "scsi0").values).toMatchObject({ unused0: "l1:x", cores: "2" });
    expect(applyAllPending(staged)).toMatchObject({ pending: {}, values: { unused0: "l1:x", cores: "4" } });
    expect(applyPending(stageDelete(base, "scsi0", true), "scsi0").values).not.toHaveProperty("unused0");
    expect(applyPending(stageValue(base, "scsi0", "l1:y"), "scsi0").values).toMatchObject({
      scsi0: "l1:y",
      unused0: "l1:x",
    });
    expect(applyPending(stageValue(base, "scsi0", "l1:x,size=1G,ssd=1"), "scsi0").values).not.toHaveProperty(
      "unused0",
    );
    expect(applyPending(base, "cores")).toBe(base);
  });

  it("shows the configuration to come, and rows of both", () => {
    const staged = stageDelete(stageDelete(stageValue(base, "cores", "4"), "net0"), "scsi0", true);
    expect(effectiveValues(staged)).toEqual({ cores: "4", cipassword: "secret" });
    expect(pendingRows(staged)).toEqual([
      { key: "cipassword", value: "**********" },
      { key: "cores", value: "2", pending: "4" },
      { key: "net0", value: "virtio", delete: 1 },
      { key: "scsi0", value: "l1:x,size=1G", delete: 2 },
    ]);
  });
});
