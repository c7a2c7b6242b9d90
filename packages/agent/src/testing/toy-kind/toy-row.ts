// The smallest guest there can be, in the table of kinds: one process that sleeps, with one volume. It shows that a kind
// is its own folder and a line in each table.
import type { GuestKind } from "@gpve/domain/guest/guest-kind.ts";
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";

/** Only in tests is it a type of guest. */
export const TOY_TYPE = "toy" as GuestType;

export const toyRow: GuestKind = {
  haType: "toy",
  noun: "TOY",
  configFolder: "toys",
  nameKey: "name",
  unnamed: (vmid) => `TOY${vmid}`,
  cpus: () => 1,
  mainDisk: () => "disk",
  more: () => ({}),
  volumeContent: "images",
  claim: () => ({ demand: {}, tags: [] }),
  backupVolumes: (keys) => {
    const volume = keys.get("disk");
    return volume === undefined ? [] : [{ key: "disk", volume, included: true, reason: "enabled" }];
  },
};
