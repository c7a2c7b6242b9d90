// Making and removing VMs for /api/v1: what PVE's methods take, and what PVE has no word for.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import type { OwnHandlers } from "../../../application/agent.ts";
import {
  requestNewVm,
  type NewVmParameters,
  type VmMakerDeps,
} from "../../../application/qemu/request/create-request.ts";
import { submitRemoval, type VmRemoverDeps } from "../../../application/qemu/request/remove-request.ts";

export function createVmExtensions(
  deps: VmMakerDeps & VmRemoverDeps,
): OwnHandlers<
  "POST /gpve/nodes/{node}/virtual-machines" | "DELETE /gpve/nodes/{node}/virtual-machines/{vmid}"
> {
  return {
    "POST /gpve/nodes/{node}/virtual-machines": async (
      { node, vmid, pool, config, running, microvm },
      ctx,
    ) => {
      const method = methodByKey("POST /nodes/{node}/qemu");
      if (method === undefined) throw new AppError("internal.error", "PVE's method to make VMs is gone");
      const { pool: named = pool, ...keys } = config;
      // Which VM and whose pool was decided on; the configuration has no say in it.
      if (named !== pool)
        throw new AppError("request.invalid", "config.pool is not the pool that was asked for");
      const asked = { ...keys, node, vmid: String(vmid), ...given({ pool }) };
      const { node: _node, ...params } = requireValidParams(method, asked, { source: "form" });
      const request = params as unknown as NewVmParameters;
      if (request.archive !== undefined)
        throw new AppError("request.invalid", "config.archive: backups are restored by their own methods");
      return requestNewVm(deps, { ...request, vmid, start: running === true, microvm }, ctx);
    },

    "DELETE /gpve/nodes/{node}/virtual-machines/{vmid}": ({ vmid, digest, madeBy }, ctx) =>
      submitRemoval(deps, { vmid, meant: given({ digest, madeBy }) }, ctx),
  };
}
