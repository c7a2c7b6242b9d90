// A request to move a VM to another node: what PVE finds out before it forks.
import { given } from "@gpve/contracts/given.ts";
import type { PveParams } from "@gpve/contracts/gen/pve-params.ts";
import { checkLock } from "@gpve/domain/guest/guest-lock.ts";
import { conflict, parameterError } from "@gpve/domain/request/failures.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { isShared } from "@gpve/domain/storage/definition.ts";
import { usedVolumes } from "@gpve/domain/vm/migrate/movable.ts";
import { mapStorage, parseStorageMap } from "@gpve/domain/vm/migrate/storage-map.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { copyLimit } from "../disk/copy-limits.ts";
import { requireRootFor, submitVmTask } from "../request/vm-tasks.ts";
import { runningVm } from "../running-vm.ts";
import type { MigrateArgs, MigratePorts } from "./migrate-operation.ts";
import { moveWishes } from "./move-wishes.ts";

export interface MigrateRequestDeps {
  readonly host: MigratePorts;
  readonly engine: OperationEngine;
}

export async function requestMigrate(
  { host, engine }: MigrateRequestDeps,
  params: PveParams["POST /nodes/{node}/qemu/{vmid}/migrate"],
  ctx: RequestContext,
): Promise<string> {
  const { vmid, target, targetstorage } = params;
  const { force, migration_type: type, migration_network: network } = params;
  requireRootFor({ force, migration_type: type, migration_network: network }, ctx);
  if (target === host.configs.node) throw parameterError({ target: "target is local node." });
  host.moves.requireOthers?.(target);
  const config = host.configs.get(vmid);
  checkLock(config);
  const isRunning = runningVm(host, vmid) !== undefined;
  if (isRunning && params.online !== true) throw conflict("can't migrate running VM without --online");
  const map = targetstorage === undefined ? undefined : parseStorageMap(targetstorage);
  const local = usedVolumes(config)
    .map(({ storage }) => storage)
    .filter((storage) => !isShared(host.storages.definition(storage)));
  const there = map === undefined ? [] : local.map((storage) => mapStorage(map, storage));
  for (const storage of there) ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
  const bwlimit = copyLimit(host, {
    operation: "migration",
    storages: [...local, ...there.filter((storage) => isHere(host, storage))],
    wanted: params.bwlimit,
    access: ctx.access,
  });
  const args: Omit<MigrateArgs, "vmid"> = {
    moveId: ctx.requestId,
    target,
    online: params.online ?? false,
    withLocalDisks: params["with-local-disks"] ?? false,
    ...given({ targetstorage, bwlimit, wishes: moveWishes(params) }),
  };
  return submitVmTask(engine, "qmigrate", vmid, args, ctx);
}

/** One that only the other node has is not known here, nor is its limit. */
function isHere({ storages }: MigratePorts, storage: string): boolean {
  try {
    storages.definition(storage);
    return true;
  } catch (err) {
    ignore(err, "of the other node");
    return false;
  }
}
