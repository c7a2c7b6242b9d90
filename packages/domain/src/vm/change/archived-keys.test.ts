import { expect, test } from "vitest";
import { refuseReachingKeys } from "./archived-keys.ts";

test.each([
  ["args", "-device x"],
  ["hookscript", "local:snippets/a.sh"],
  ["hostpci0", "host=01:00.0"],
  ["usb0", "host=1-1"],
  ["serial1", "/dev/ttyS0"],
  ["parallel0", "/dev/parport0"],
  ["ivshmem", "size=1,name=x"],
  ["virtio3", "/dev/sdb,cache=none"],
  ["sata0", "file=/dev/sdb"],
])("%s of an archive is for root, or for who has it", (key, value) => {
  expect(() => refuseReachingKeys(100, { [key]: value }, [])).toThrow(`only root can set '${key}' config`);
  expect(() => refuseReachingKeys(100, { [key]: value }, [{}, { [key]: "other" }])).toThrow("root@pam");
  expect(() => refuseReachingKeys(100, { [key]: value }, [{ [key]: value }])).not.toThrow();
});

test("what reaches nobody is anybody's", () => {
  const values = {
    memory: "16",
    meta: "creation-qemu=9",
    vmgenid: "x",
    affinity: "0",
    serial0: "socket",
    usb0: "spice",
    hostpci0: "mapping=gpu",
    scsi0: "local:100/vm-100-disk-0.raw",
    ide2: "none,media=cdrom",
  };
  expect(() => refuseReachingKeys(100, values, [])).not.toThrow();
});
