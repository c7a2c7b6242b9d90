import { expect, test } from "vitest";
import { missingParts } from "./missing-parts.ts";

const NO_CARD = "It has no network card: gpvectl vm set 100 net0=virtio,bridge=vmbr0.";

test("says what a new VM lacks and how to give it, and nothing of one that has it all", () => {
  expect(missingParts(100, { cores: 1 })).toEqual([
    expect.stringMatching(/^It has no disk and no CD: gpvectl vm set 100 scsi0=local:10 .* --image tiny/),
    NO_CARD,
  ]);
  expect(missingParts(100, { scsi0: "local:20,format=qcow2", net0: "virtio,bridge=vmbr0" })).toEqual([
    expect.stringContaining(
      "Its disk is empty, and there is no CD to install from: gpvectl vm set 100 ide2=",
    ),
  ]);
  expect(missingParts(100, { scsi0: "local:100/vm-100-disk-0.qcow2" })).toEqual([NO_CARD]);
  const cd = { scsi0: "local:20", ide2: "local:iso/a.iso,media=cdrom", net0: "virtio" };
  expect(missingParts(100, cd)).toEqual([]);
  const image = {
    scsi0: "local:0,import-from=local:import/a.qcow2",
    ide2: "local:cloudinit",
    net0: "virtio",
  };
  expect(missingParts(100, image)).toEqual([]);
});
