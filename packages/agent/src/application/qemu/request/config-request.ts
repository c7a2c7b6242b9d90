// One request to change a VM's configuration: everything that PVE looks at before it locks the VM or forks.
import { parameterError } from "@gpve/domain/request/failures.ts";
import { isAppError, type AppError } from "@gpve/contracts/errors.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { storedCloudinitValues } from "@gpve/domain/vm/cloudinit/cloudinit-settings.ts";
import {
  checkBalloon,
  checkDigest,
  readConfigUpdate,
  withDiscardedState,
  type ConfigUpdate,
} from "@gpve/domain/vm/change/config-update.ts";
import { checkLock } from "@gpve/domain/guest/guest-lock.ts";
import { effectiveValues } from "@gpve/domain/vm/change/pending.ts";
import { doomedVolumes } from "../config/check-update.ts";
import { checkStorages, type NewDisksPorts } from "../config/new-disks.ts";
import { checkDriveAccess, checkDriveParameters } from "./drive-access.ts";
import { checkCpuModel, checkedTags, checkPrivileges } from "./key-access.ts";
import { requireRootFor } from "./vm-tasks.ts";
import { volumeOf } from "../../guest/guest-storages.ts";
import type { FileFacts } from "@gpve/domain/guest/file-facts.ts";

export interface VmConfigRequestPorts extends NewDisksPorts {
  readonly files: FileFacts;
}

export function checkedUpdate(
  host: VmConfigRequestPorts,
  vmid: number,
  params: Readonly<Record<string, unknown>>,
  ctx: RequestContext,
): ConfigUpdate {
  const update = readConfigUpdate(params);
  requireRootFor({ skiplock: update.skiplock }, ctx);
  checkCpuModel(host, update.set);
  checkDriveParameters(host, update.set);
  checkHookscript(host, update.set["hookscript"]);
  const config = host.configs.get(vmid);
  const current = effectiveValues(config);
  checkPrivileges(vmid, current, update.set, [...update.delete, ...update.revert], ctx);
  checkDriveAccess(host, vmid, update.set, ctx);
  checkStorages(host, update.set);
  for (const volid of doomedVolumes(host, vmid, config, update).values())
    ctx.access.require(`/storage/${parseVolumeId(volid)?.storage}`, ["Datastore.AllocateSpace"]);
  if (update.delete.includes("tags")) checkedTags(host, { tags: "" }, current["tags"], ctx);
  const set = {
    ...storedCloudinitValues(update.set, current, host.cloudinit.hashPassword),
    ...checkedTags(host, update.set, current["tags"], ctx),
  };
  checkDigest(config, update.digest);
  if (!withDiscardedState(config, update).skiplock) checkLock(config);
  checkBalloon(config, update);
  return { ...update, set };
}

function checkHookscript(host: VmConfigRequestPorts, volid: string | undefined): void {
  if (volid === undefined || volid === "") return;
  const fail = (message: string): AppError => parameterError({ hookscript: `${message}\n` });
  let path: string;
  try {
    const { plugin, volname } = volumeOf(host, volid);
    if (plugin.parse(volname).type !== "snippets") throw fail(`'${volid}' is not in the snippets directory`);
    path = plugin.path(volname);
  } catch (err) {
    throw isAppError(err) && err.errors === undefined ? fail(err.message) : err;
  }
  if (!host.files.exists(path)) throw fail(`script '${volid}' does not exist`);
  if (!host.files.isExecutable(path)) throw fail(`script '${volid}' is not executable`);
}
