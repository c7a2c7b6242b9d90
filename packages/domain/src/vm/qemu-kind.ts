// VMs in the table of kinds.
import { backupVolumes } from "../backup/backup-volumes.ts";
import { splitList } from "../schema/list.ts";
import { effectiveValues } from "./change/pending.ts";
import { parseVmConfig } from "./config/parse-config.ts";
import { vmDemand } from "./vm-demand.ts";
import type { GuestKeys, GuestKind } from "../guest/guest-kind.ts";

const DEFAULT_SHARES = 1000;

export const qemuKind: GuestKind = {
  haType: "vm",
  noun: "VM",
  configFolder: "qemu-server",
  nameKey: "name",
  unnamed: (vmid) => `VM ${vmid}`,
  cpus: (keys) =>
    Number(keys.get("vcpus") ?? Number(keys.get("cores") ?? 1) * Number(keys.get("sockets") ?? 1)),
  mainDisk: bootDisk,
  more: (keys) => {
    const balloon = Number(keys.get("balloon") ?? 0);
    const shares = Number(keys.get("shares") ?? DEFAULT_SHARES);
    return {
      ...([0, 1, 2, 3].some((port) => keys.has(`serial${port}`)) ? { serial: true } : {}),
      ...(balloon > 0 ? { balloon: { min: balloon * 1024 * 1024, shares } } : {}),
    };
  },
  volumeContent: "images",
  backupVolumes: (keys) => backupVolumes(Object.fromEntries(keys)),
  claim: ({ vmid, conf, sizes }) => {
    const config = parseVmConfig(conf, { vmid, digestOf: () => "" });
    return { demand: vmDemand(config, sizes), tags: splitList(effectiveValues(config)["tags"] ?? "") };
  },
};

function bootDisk(keys: GuestKeys): string | undefined {
  const order = /order=([^,]*)/.exec(keys.get("boot") ?? "")?.[1]?.split(";") ?? [];
  const isDisk = (key: string): boolean =>
    /^(?:scsi|virtio|sata|ide)\d+$/.test(key) && !(keys.get(key) ?? "").includes("media=cdrom");
  return (
    order.find((key) => isDisk(key) && keys.has(key)) ?? keys.get("bootdisk") ?? [...keys.keys()].find(isDisk)
  );
}
