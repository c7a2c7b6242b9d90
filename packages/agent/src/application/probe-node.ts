// The operation behind "look at this host again": runs every probe, guests under KVM and TCG included.
import type { NodeFacts } from "@gpve/domain/node/runtime.ts";
import { askedBy } from "@gpve/domain/request/context.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OwnHandlers } from "./agent.ts";

const PROBE_OPERATION = "nodeprobe";

export function probeNodeOperation(deps: {
  readonly refresh: (signal: AbortSignal) => Promise<void>;
  readonly facts: () => NodeFacts;
}): OperationDefinition {
  return {
    type: PROBE_OPERATION,
    onCrash: "resume",
    steps: [
      {
        name: "probe",
        run: async (ctx) => {
          ctx.log("looking at tools and devices, and running a guest where that was not done since boot");
          await deps.refresh(ctx.signal);
          const { accelerator, capabilities } = deps.facts();
          ctx.log(`accelerator: ${accelerator}`);
          for (const { name, available, detail, fix } of capabilities) {
            const line = `${name}: ${available ? "yes" : "no"}, ${detail}`;
            if (available || fix === undefined) ctx.log(line);
            else ctx.log(`${line}; ${fix}`);
          }
        },
      },
    ],
  };
}

export function probeRoutes(
  node: string,
  engine: Pick<OperationEngine, "submit">,
): OwnHandlers<"POST /gpve/nodes/{node}/probe"> {
  return {
    "POST /gpve/nodes/{node}/probe": async ({ requestId }, ctx) => {
      ctx.access.require(`/nodes/${node}`, ["Sys.Modify"]);
      const resources = [`node/${node}/probe`];
      const { upid } = await engine.submit({ type: PROBE_OPERATION, resources, requestId, ...askedBy(ctx) });
      return upid;
    },
  };
}
