import { describe, expect, test } from "vitest";
import type { VolumeLookup } from "../command-input.ts";
import { qemuCommand } from "../qemu-command.ts";
import { sampleCommand, sampleInput } from "../testing/sample-host.ts";

const pve = { dialect: "pve" } as const;

describe("disks", () => {
  test("that are raw and no whole number of pages keep the page cache, whatever the configuration says of them", () => {
    const direct = (drive: string, options = {}, unaligned = true) => {
      const input = sampleInput({ scsi0: drive }, {}, options);
      const volumes: VolumeLookup = (file, of) => ({ ...input.volumes(file, of), unaligned });
      return qemuCommand({ ...input, volumes })
        .argv.find((word) => word.includes('"throttle-group":'))
        ?.includes('"direct":true');
    };
    expect(direct("store:a.raw")).toBe(false);
    expect(direct("store:a.raw,size=104858K", {}, false)).toBe(true);
    expect(direct("store:a.qcow2")).toBe(true);
    expect(direct("store:a.raw,cache=none")).toBe(true);
    expect(direct("store:a.raw,aio=native")).toBe(true);
    expect(direct("store:a.raw", pve)).toBe(true);
  });

  test("whose changes nobody keeps are only read; the guest writes above them", () => {
    const input = sampleInput({ scsi0: "store:a.raw,snapshot=1,mbps=1" });
    const volumes: VolumeLookup = (file, of) => ({
      ...input.volumes(file, of),
      overlay: { driver: "file", filename: "/io/scsi0.overlay" },
    });
    const { argv } = qemuCommand({ ...input, volumes });
    const top = JSON.parse(argv[argv.indexOf("-blockdev") + 1] ?? "") as unknown;
    expect(top).toMatchObject({
      driver: "throttle",
      "node-name": "drive-scsi0",
      "read-only": false,
      file: {
        driver: "qcow2",
        "read-only": false,
        file: { filename: "/io/scsi0.overlay", "read-only": false, cache: { "no-flush": true } },
        backing: { driver: "raw", "read-only": true, file: { filename: "/store/a.raw", "read-only": true } },
      },
    });
  });

  test("need a volume: only CD drives can be empty", () => {
    for (const key of ["ide0", "sata0", "scsi0", "virtio0"])
      expect(() => sampleCommand({ [key]: "none" })).toThrow(`${key}: a disk cannot be 'none'`);
    expect(sampleCommand({ scsi0: "none,media=cdrom" }).all("-device")).toContainEqual(
      expect.stringMatching(/^scsi-cd,/),
    );
  });

  test("that SCSI commands are passed to say which limits they do not keep", () => {
    const { warnings } = sampleCommand({ scsi0: "/dev/sdg,scsiblock=1,mbps=10,iops_rd=5" });
    expect(warnings).toEqual([
      "scsi0: SCSI commands are passed through to '/dev/sdg', so it has no limits (bps-total, iops-read)",
    ]);
    expect(sampleCommand({ scsi0: "/dev/sdg,scsiblock=1" }).warnings).toEqual([]);
    expect(sampleCommand({ scsi0: "/dev/sdg,mbps=10" }).warnings).toEqual([]);
  });
});
