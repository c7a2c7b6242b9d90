// PVE's methods for many guests at once that reach beyond one node.
import { given } from "@gpve/contracts/given.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import { requestAtOnce, type AtOnceRequestDeps } from "../../../application/guest/guests-at-once-request.ts";

/** PVE's own, where nobody says. */
const POWER_WORKERS = 4;
const SHUTDOWN_SECONDS = 180;

export function createGuestsAtOnceHandlers(deps: AtOnceRequestDeps): PveHandlers {
  return {
    "POST /nodes/{node}/migrateall": ({ node, target, vms, ...more }, ctx) => {
      const params = { target, ...given({ "with-local-disks": more["with-local-disks"] }) };
      const vmids = vms === undefined ? undefined : splitList(vms).map(Number);
      const workers = workersOf(more);
      const asked = { verb: "migrate", node, vmids, workers, params, onlineIfRunning: true } as const;
      return requestAtOnce(deps, "migrateall", asked, ctx);
    },
    "POST /cluster/bulk-action/guest/migrate": ({ target, vms, online, ...more }, ctx) => {
      const params = { target, ...given({ online, "with-local-disks": more["with-local-disks"] }) };
      const asked = { verb: "migrate", vmids: vms, workers: workersOf(more) ?? 1, params } as const;
      return requestAtOnce(deps, "bulkmigrate", asked, ctx);
    },
    "POST /cluster/bulk-action/guest/start": ({ vms, timeout, ...more }, ctx) => {
      const workers = workersOf(more) ?? POWER_WORKERS;
      const asked = { verb: "start", vmids: vms, workers, params: given({ timeout }) } as const;
      return requestAtOnce(deps, "bulkstart", asked, ctx);
    },
    "POST /cluster/bulk-action/guest/shutdown": ({ vms, timeout, ...more }, ctx) => {
      const workers = workersOf(more) ?? POWER_WORKERS;
      const params = { timeout: timeout ?? SHUTDOWN_SECONDS, forceStop: more["force-stop"] ?? true };
      return requestAtOnce(deps, "bulkshutdown", { verb: "shutdown", vmids: vms, workers, params }, ctx);
    },
    "POST /cluster/bulk-action/guest/suspend": ({ vms, statestorage, ...more }, ctx) => {
      const workers = workersOf(more) ?? POWER_WORKERS;
      const params = given({ todisk: more["to-disk"], statestorage });
      return requestAtOnce(deps, "bulksuspend", { verb: "suspend", vmids: vms, workers, params }, ctx);
    },
  };
}

function workersOf(asked: { readonly "max-workers"?: number; readonly maxworkers?: number }) {
  return asked["max-workers"] ?? asked.maxworkers;
}
