// PVE's methods for all guests of a node at once.
import { given } from "@gpve/contracts/given.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { requestForGuests } from "../../../application/guest/all-guests-request.ts";

export interface AllGuestsHandlerDeps {
  readonly engine: Pick<OperationEngine, "submit">;
}

export function createAllGuestsHandlers({ engine }: AllGuestsHandlerDeps): PveHandlers {
  return {
    "POST /nodes/{node}/startall": ({ node, vms, force }, ctx) =>
      requestForGuests(engine, "startall", { node, vms, args: { force: force ?? false } }, ctx),
    "POST /nodes/{node}/stopall": (
      { node, vms, timeout, "force-stop": forceStop, "max-workers": workers },
      ctx,
    ) => {
      const args = { forceStop: forceStop ?? true, ...given({ timeoutSeconds: timeout, workers }) };
      return requestForGuests(engine, "stopall", { node, vms, args }, ctx);
    },
    "POST /nodes/{node}/suspendall": ({ node, vms }, ctx) =>
      requestForGuests(engine, "suspendall", { node, vms, args: {} }, ctx),
  };
}
