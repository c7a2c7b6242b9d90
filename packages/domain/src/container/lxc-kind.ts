// Containers in the table of kinds.
import { splitList } from "../schema/list.ts";
import { ctDemand } from "./ct-demand.ts";
import type { GuestKind } from "../guest/guest-kind.ts";

export const lxcKind: GuestKind = {
  haType: "ct",
  noun: "CT",
  configFolder: "lxc",
  nameKey: "hostname",
  unnamed: (vmid) => `CT${vmid}`,
  cpus: (keys) => Number(keys.get("vcpus") ?? keys.get("cores") ?? 1),
  mainDisk: () => "rootfs",
  more: () => ({}),
  volumeContent: "rootdir",
  backupVolumes: () => [],
  claim: ({ keys }) => ({ demand: ctDemand(keys), tags: splitList(keys.get("tags") ?? "") }),
};
