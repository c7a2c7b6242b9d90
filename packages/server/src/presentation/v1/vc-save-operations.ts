// Backup, restore, upgrade, moves and new authorities of virtual clusters in /api/v1.
import type { FixedOperation } from "@gpve/contracts/v1/routes.ts";
import type {
  VcBackupRequest,
  VcMigrateRequest,
  VcRestoreRequest,
  VcRotateRequest,
  VcUpgradeRequest,
} from "@gpve/contracts/v1/vc-save-bodies.ts";
import type { Idempotency } from "../../application/v1/idempotency.ts";
import type { Call, Reply } from "./call.ts";
import type { V1Deps } from "./ports.ts";
import { wantedVersion } from "./vc-bodies.ts";

type SaveOperation = Extract<
  FixedOperation,
  | "backupVcluster"
  | "listVclusterBackups"
  | "restoreVcluster"
  | "restoreTenantVcluster"
  | "upgradeVcluster"
  | "migrateVcluster"
  | "rotateVclusterCa"
>;

export function vcSaveOperations(
  {
    vclusterSaves,
    vclusterMoves,
    vclusterWorkerMoves,
  }: Pick<V1Deps, "vclusterSaves" | "vclusterMoves" | "vclusterWorkerMoves">,
  idempotency: Pick<Idempotency, "once">,
): Readonly<Record<SaveOperation, (call: Call) => Promise<Reply>>> {
  const work = async (
    { ctx, once: wanted }: Call,
    run: (requestId: string) => Promise<string>,
  ): Promise<Reply> => ({
    body: { task: await idempotency.once(wanted, () => run(wanted?.id ?? ctx.requestId)) },
  });
  const restore = (call: Call): Promise<Reply> => {
    const { name = "", tenant } = call.params;
    return work(call, (id) =>
      vclusterSaves.restore({ name, tenant }, call.body as VcRestoreRequest, call.ctx, id),
    );
  };
  return {
    backupVcluster: (call) =>
      work(call, (id) =>
        vclusterSaves.backUp(call.params["name"] ?? "", call.body as VcBackupRequest, call.ctx, id),
      ),
    listVclusterBackups: async ({ called: name = "", tenant = "", ctx }) => {
      const backups = await vclusterSaves.list({ name, tenant }, ctx);
      const away = vclusterSaves.away({ name, tenant });
      return { body: { backups, ...(away.length === 0 ? {} : { away }) } };
    },
    restoreVcluster: restore,
    restoreTenantVcluster: restore,
    upgradeVcluster: (call) => {
      const wanted = wantedVersion(call.body as VcUpgradeRequest);
      return work(call, (id) => vclusterSaves.upgrade(call.params["name"] ?? "", wanted, call.ctx, id));
    },
    migrateVcluster: (call) => {
      const { target, worker } = call.body as VcMigrateRequest;
      const key = call.params["name"] ?? "";
      return work(call, (id) =>
        worker === undefined
          ? vclusterMoves.begin(key, target, call.ctx, id)
          : vclusterWorkerMoves.begin(key, { worker, target }, call.ctx, id),
      );
    },
    rotateVclusterCa: (call) =>
      work(call, (id) =>
        vclusterSaves.rotateCa(call.params["name"] ?? "", call.body as VcRotateRequest, call.ctx, id),
      ),
  };
}
