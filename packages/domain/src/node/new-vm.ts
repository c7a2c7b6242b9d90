// What a server calls to have a VM made that PVE's method cannot describe.

import type { AgentRoute } from "@gpve/contracts/agent/agent-routes.ts";

export const NEW_VM_ROUTE = "POST /gpve/nodes/{node}/virtual-machines" satisfies AgentRoute;
