// Backups of toys: the file of their volume, packed by tar. A process that sleeps writes nothing, so it sleeps on.
import { rename } from "node:fs/promises";
import { basename, dirname } from "node:path";
import type { NodeFiles } from "@gpve/domain/backup/backup-ports.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { lockForBackup, unlockAfterBackup } from "../../application/guest/backup/backup-lock.ts";
import type { GuestBackup } from "../../application/guest/backup/backup-run.ts";
import { volumeOf } from "../../application/guest/guest-storages.ts";
import type { ToyPorts } from "./toy-operations.ts";
import { TOY_TYPE } from "./toy-row.ts";

export function toyBackup(
  host: ToyPorts & { readonly exec: Exec },
  tools: Pick<NodeFiles, "removeFile">,
): GuestBackup {
  const { configs, exec } = host;
  const release: GuestBackup["release"] = async ({ vmid, leftovers }) => {
    for (const path of leftovers) await tools.removeFile(path);
    await unlockAfterBackup(host, vmid);
  };
  return {
    type: TOY_TYPE,
    configs,
    nameOf: (vmid) => configs.find(vmid)?.values["name"] ?? `TOY ${vmid}`,
    extension: () => ".tar",
    release,
    save: async (step, work) => {
      const half = `${step.path}.dat`;
      const { config, held } = await lockForBackup(host, step, async () => ({
        vmid: step.vmid,
        leftovers: [half],
      }));
      try {
        await step.phase("backup-start");
        const { plugin, volname } = volumeOf(host, config.values["disk"] ?? "");
        const file = await plugin.file(volname);
        await exec("tar", ["-cf", half, "-C", dirname(file), basename(file)], { signal: work.signal });
        await rename(half, step.path);
        await step.keepArchive();
        await step.phase("backup-end");
      } finally {
        await release(held, work);
        delete step.state.held;
        await step.checkpoint();
      }
    },
  };
}
