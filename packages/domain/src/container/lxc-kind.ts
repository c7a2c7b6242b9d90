// Containers in the table of kinds.
import type { GuestKind } from "../guest/guest-kind.ts";

export const lxcKind: GuestKind = {
  noun: "CT",
  configFolder: "lxc",
  nameKey: "hostname",
  unnamed: (vmid) => `CT${vmid}`,
  cpus: (keys) => Number(keys.get("vcpus") ?? keys.get("cores") ?? 1),
  mainDisk: () => "rootfs",
  more: () => ({}),
  volumeContent: "rootdir",
  backupVolumes: () => [],
};
