import { describe, expect, test } from "vitest";
import { requireDrive } from "../../config/drive.ts";
import { copyTopName, isTopNodeOf, topNodeName } from "./block-node.ts";
import { copyNodes } from "./copy-nodes.ts";
import type { JsonObject } from "../text/option-text.ts";
import { fakeHash, sampleInput } from "../testing/sample-host.ts";

const of = (key: string, text: string, more: Record<string, string> = {}) =>
  copyNodes(sampleInput({ [key]: text, ...more }), key, requireDrive(key, text));

describe("a copy that takes a drive's place", () => {
  test("has a top of its own, which is known as the drive's", () => {
    const { top, blockdev, throttleGroup } = of("scsi1", "store:a.qcow2,iothread=1,mbps=3");
    expect(top).toBe(copyTopName("scsi1", "store:a.qcow2", fakeHash));
    expect(blockdev["node-name"]).toBe(top);
    expect(top.length).toBeLessThan(32);
    expect(copyTopName("efidisk0", "store:a.qcow2", fakeHash).length).toBeLessThan(32);
    for (const name of [top, topNodeName("scsi1")]) expect(isTopNodeOf("scsi1", name), name).toBe(true);
    for (const name of ["drive-scsi10", "drive-scsi1-", "drive-scsi1-x", "drive-scsi1-backup", "", "#block1"])
      expect(isTopNodeOf("scsi1", name), name).toBe(false);
    expect(isTopNodeOf("scsi10", topNodeName("scsi1"))).toBe(false);
    expect(throttleGroup).toEqual({ id: "throttle-copy-scsi1", limits: {}, "qom-type": "throttle-group" });
  });

  test("is filled without limits and becomes what a start would make of it", () => {
    const { top, blockdev, settled } = of("scsi1", "store:a.raw,ro=1,mbps=3");
    const image = blockdev["file"] as JsonObject;
    const filled = { "read-only": false, discard: "unmap" };
    expect(blockdev).toMatchObject({ ...filled, "throttle-group": "throttle-copy-scsi1" });
    expect(image).toMatchObject({ ...filled, driver: "raw", file: filled });
    expect(blockdev["detect-zeroes"]).toBe("unmap");
    expect(settled).toEqual({
      driver: "throttle",
      "node-name": top,
      "throttle-group": "throttle-drive-scsi1",
      file: image["node-name"],
      discard: "ignore",
      "detect-zeroes": "on",
      "read-only": true,
    });
  });

  test("has no filter where the drive has none", () => {
    const { top, blockdev, settled } = of("scsi1", "/dev/sdz,scsiblock=1");
    expect(blockdev).toMatchObject({ driver: "raw", "node-name": top });
    expect(settled).toBeUndefined();
  });

  test("of an EFI disk is as long as its firmware wants it", () => {
    const { blockdev } = of("efidisk0", "store:a.raw,efitype=4m,size=528K", { bios: "ovmf" });
    expect(blockdev["file"]).toMatchObject({ size: 131072, cache: { direct: false } });
  });
});
