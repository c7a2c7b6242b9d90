import { expect, it } from "vitest";
import { readBackupMap, restoreConfigText } from "./restore-config.ts";

const fresh = {
  volumes: { scsi0: "new:100/disk.raw" },
  newMac: () => "BC:24:11:00:00:09",
  newUuid: () => "11111111-1111-4111-8111-111111111111",
};
const backup = [
  "#note",
  "lock: backup",
  "net0: virtio=BC:24:11:00:00:01,bridge=vmbr0",
  "net1: e1000,bridge=vmbr0",
  "parent: snap",
  "scsi0: old:x,format=raw,size=1G",
  "scsi1: old:y,backup=0",
  "scsi2: old:z",
  "smbios1: uuid=21a7e7bc-3cd2-4232-a009-a41f4ee992ae",
  "unused0: old:u",
  "vlan3: e1000=BC:24:11:00:00:02;virtio",
  "vmgenid: 21a7e7bc-3cd2-4232-a009-a41f4ee992ae",
  "#qmdump#map:scsi0:drive-scsi0:old::",
  "",
].join("\n");

it("points drives to their new volumes and leaves out what a new VM must not inherit", () => {
  expect(restoreConfigText(backup, { ...fresh, unique: false })).toBe(
    [
      "#note",
      "net0: virtio=BC:24:11:00:00:01,bridge=vmbr0",
      "net1: e1000,bridge=vmbr0",
      "scsi0: new:100/disk.raw,size=1G",
      "#scsi1: old:y,backup=0",
      "scsi2: old:z",
      "smbios1: uuid=21a7e7bc-3cd2-4232-a009-a41f4ee992ae",
      "net0: e1000=BC:24:11:00:00:02,bridge=vmbr3",
      "net1: virtio=BC:24:11:00:00:09,bridge=vmbr3",
      "vmgenid: 11111111-1111-4111-8111-111111111111",
      "",
    ].join("\n"),
  );
});

it("renews addresses and uuids of a unique restore", () => {
  const text = restoreConfigText(backup, { ...fresh, unique: true });
  expect(text).toContain("net0: virtio=BC:24:11:00:00:09,bridge=vmbr0\n");
  // A device that had no address until it was started gets one now.
  expect(text).toContain("net1: e1000=BC:24:11:00:00:09,bridge=vmbr0\n");
  expect(text).toContain("smbios1: uuid=11111111-1111-4111-8111-111111111111\n");
});

it("keeps lines that stay to the byte", () => {
  for (const text of ["", "name: a", "name: a\r\nmemory: 1\n\n", "#scsi0: old:x\n", "scsi0: old:x, size=1\n"])
    expect(restoreConfigText(text, { ...fresh, unique: true })).toBe(text);
  const dropped = "#vzdump#x\nunused12: a:b\nparent: s\nlock: backup\n";
  expect(restoreConfigText(dropped, { ...fresh, unique: false })).toBe("");
  expect(restoreConfigText("scsi1: old:y,backup=0", { ...fresh, unique: false })).toBe(
    "#scsi1: old:y,backup=0",
  );
});

it("leaves no restored drive with the volume of the VM it came from", () => {
  const odd = ["scsi0: old:x,mbps=1,mbps_rd=2", "scsi0: old:x,bogus=1", "scsi0: old:x,media=cdrom,cyls=2"];
  for (const line of odd)
    expect(restoreConfigText(`${line}\n`, { ...fresh, unique: false })).toBe("scsi0: new:100/disk.raw\n");
});

it("renews the uuid of SMBIOS facts that cannot be read", () => {
  expect(restoreConfigText("smbios1: nonsense", { ...fresh, unique: true })).toBe(
    "smbios1: uuid=11111111-1111-4111-8111-111111111111\n",
  );
  const facts = "smbios1: base64=1,uuid=21a7e7bc-3cd2-4232-a009-a41f4ee992ae,serial=YQ==";
  expect(restoreConfigText(`${facts} \n`, { ...fresh, unique: true })).toBe(
    "smbios1: base64=1,serial=YQ==,uuid=11111111-1111-4111-8111-111111111111\n",
  );
});

it("keeps a generation id of 0 and reads the backup's map", () => {
  expect(restoreConfigText("vmgenid: 0", { ...fresh, unique: true })).toBe("vmgenid: 0\n");
  expect(readBackupMap(backup)).toEqual([
    { key: "scsi0", device: "drive-scsi0", storage: "old", format: "" },
  ]);
});
