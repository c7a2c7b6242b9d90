// PVE's methods that move a VM to another node. Where it could go, servers say from what they know.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import {
  requestMigrate,
  type MigrateRequestDeps,
} from "../../../application/qemu/migrate/migrate-request.ts";

export function createMigrateHandlers(deps: MigrateRequestDeps): PveHandlers {
  return {
    "POST /nodes/{node}/qemu/{vmid}/migrate": (params, ctx) => requestMigrate(deps, params, ctx),
  };
}
