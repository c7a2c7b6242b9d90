// PVE's methods that make, grow and take away a VM's disks: clone, template, resize, move, unlink.
import { AppError } from "@gpve/contracts/errors.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { checkLock, isTemplate } from "@gpve/domain/vm/lock.ts";
import { requireSnapshot } from "@gpve/domain/vm/snapshot.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { alreadyCloned, checkCloneable, cloneStorages } from "../../application/vm/disk/clone-vm.ts";
import { checkTemplatePossible } from "../../application/vm/disk/make-template.ts";
import { checkMovable } from "../../application/vm/disk/move-disk.ts";
import { checkReassignable } from "../../application/vm/disk/reassign-disk.ts";
import { hasFeatureOnAll } from "../../application/vm/snapshot/snapshot-work.ts";
import type { VmHost } from "../../application/vm/vm-host.ts";
import { submitVmTask } from "./vm-tasks.ts";

export interface DiskHandlerDeps {
  readonly host: VmHost;
  readonly engine: OperationEngine;
}

export function createDiskHandlers({ host, engine }: DiskHandlerDeps): PveHandlers {
  return {
    "POST /nodes/{node}/qemu/{vmid}/clone": ({ vmid, newid, full, target, ...params }, ctx) => {
      const config = host.configs.get(vmid);
      checkLock(config);
      if (host.configs.isTaken(newid)) throw alreadyCloned(newid);
      if (target !== undefined && target !== host.node)
        throw refused(`can't clone VM to node '${target}' (VM uses local storage)`);
      const { snapname, name, description, storage, format, pool } = params;
      host.configs.requirePool(pool);
      const args = {
        vmid,
        newid,
        full: full ?? !isTemplate(config),
        ...(snapname === undefined ? {} : { snapname }),
        ...(name === undefined ? {} : { name }),
        ...(description === undefined ? {} : { description }),
        ...(storage === undefined ? {} : { storage }),
        ...(format === undefined ? {} : { format }),
        ...(pool === undefined ? {} : { pool }),
      };
      for (const id of cloneStorages(config, args))
        ctx.access.require(`/storage/${id}`, ["Datastore.AllocateSpace"]);
      if (storage !== undefined) host.storages.plugin(storage);
      checkCloneable(host, args, config);
      return submitVmTask(engine, "qmclone", vmid, args, ctx, [newid]);
    },

    "POST /nodes/{node}/qemu/{vmid}/template": ({ vmid, disk }, ctx) => {
      const args = { vmid, ...(disk === undefined ? {} : { disk }) };
      checkTemplatePossible(host, args);
      return submitVmTask(engine, "qmtemplate", vmid, args, ctx);
    },

    "PUT /nodes/{node}/qemu/{vmid}/resize": ({ vmid, disk, size, digest, skiplock }, ctx) =>
      submitVmTask(
        engine,
        "resize",
        vmid,
        { disk, size, skiplock: skiplock ?? false, ...(digest === undefined ? {} : { digest }) },
        ctx,
      ),

    "POST /nodes/{node}/qemu/{vmid}/move_disk": ({ vmid, disk, storage, format, ...more }, ctx) => {
      const targetVmid = more["target-vmid"];
      if (targetVmid !== undefined) {
        ctx.access.require(`/vms/${targetVmid}`, ["VM.Config.Disk"]);
        const args = {
          vmid,
          disk,
          targetVmid,
          targetDisk: more["target-disk"] ?? disk,
          ...(more.digest === undefined ? {} : { digest: more.digest }),
        };
        checkReassignable(host, args);
        return submitVmTask(engine, "qmmove", vmid, args, ctx, [targetVmid]);
      }
      if (storage === undefined)
        throw new AppError("request.invalid", "Parameter verification failed.", {
          errors: { storage: "property is missing and it is not optional" },
        });
      ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
      const args = {
        vmid,
        disk,
        storage,
        remove: more.delete ?? false,
        ...(format === undefined ? {} : { format }),
        ...(more.digest === undefined ? {} : { digest: more.digest }),
      };
      checkMovable(host, args);
      return submitVmTask(engine, "qmmove", vmid, args, ctx);
    },

    "GET /nodes/{node}/qemu/{vmid}/feature": ({ vmid, feature, snapname }) => {
      const config = host.configs.get(vmid);
      const values = snapname === undefined ? config.values : requireSnapshot(config, snapname);
      const hasFeature = hasFeatureOnAll(host, values, feature, snapname);
      return { hasFeature, nodes: hasFeature ? [host.node] : [] };
    },
  };
}

function refused(message: string): AppError {
  return new AppError("request.invalid", message, { pveStatus: 500 });
}
