// What a server calls to have a VM made that PVE's method cannot describe, and to have one removed that it has judged.
import type { AgentRoute } from "@gpve/contracts/agent/agent-routes.ts";

export const NEW_VM_ROUTE = "POST /gpve/nodes/{node}/virtual-machines" satisfies AgentRoute;

/** As PVE's method, but only the VM that was meant: `digest` of its configuration, or the request it was made by. */
export const REMOVE_VM_ROUTE = "DELETE /gpve/nodes/{node}/virtual-machines/{vmid}" satisfies AgentRoute;
