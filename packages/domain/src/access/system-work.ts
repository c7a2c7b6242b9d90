import type { AgentRoute, TunnelRoute } from "@gpve/contracts/agent/agent-routes.ts";

/** Work that nobody asks for in a request, and what it may call. */
export const SYSTEM_WORK = {
  "backup-job": ["POST /nodes/{node}/vzdump"],
  // Who holds the ticket was judged when it was issued; the viewer itself has no other name.
  "spice-viewer": ["TUNNEL /gpve/nodes/{node}/vms/{vmid}/spice"],
  // Putting back what was there before an apply that failed.
  "undo-apply": [
    "PUT /nodes/{node}/qemu/{vmid}/config",
    "POST /nodes/{node}/qemu/{vmid}/status/start",
    "POST /nodes/{node}/qemu/{vmid}/status/stop",
    "POST /nodes/{node}/qemu/{vmid}/status/shutdown",
    "DELETE /gpve/nodes/{node}/virtual-machines/{vmid}",
  ],
} as const satisfies Readonly<Record<string, readonly (AgentRoute | TunnelRoute)[]>>;

export type SystemWork = keyof typeof SYSTEM_WORK;

export function isSystemWork(text: string): text is SystemWork {
  return Object.hasOwn(SYSTEM_WORK, text);
}
