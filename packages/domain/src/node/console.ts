// What server and agent call a console between them.
import type { AgentRoute, TunnelRoute } from "@gpve/contracts/agent/agent-routes.ts";

export const CONSOLE_ROUTE = "POST /gpve/nodes/{node}/vms/{vmid}/consoles" satisfies AgentRoute;
export const CONSOLE_TUNNEL = "TUNNEL /gpve/nodes/{node}/vms/{vmid}/console" satisfies TunnelRoute;

export const SHELL_ROUTE = "POST /gpve/nodes/{node}/shells" satisfies AgentRoute;
export const SHELL_TUNNEL = "TUNNEL /gpve/nodes/{node}/shell" satisfies TunnelRoute;

export const SPICE_ROUTE = "POST /gpve/nodes/{node}/vms/{vmid}/spice" satisfies AgentRoute;
export const SPICE_TUNNEL = "TUNNEL /gpve/nodes/{node}/vms/{vmid}/spice" satisfies TunnelRoute;
