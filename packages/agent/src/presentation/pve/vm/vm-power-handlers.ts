// PVE's methods that start, stop, pause and resume a VM.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import {
  requestReboot,
  requestReset,
  requestResume,
  requestShutdown,
  requestStart,
  requestStop,
  requestSuspend,
  type PowerRequestDeps,
} from "../../../application/qemu/request/power-requests.ts";

export function createPowerHandlers(deps: PowerRequestDeps): PveHandlers {
  return {
    "POST /nodes/{node}/qemu/{vmid}/status/start": (params, ctx) => requestStart(deps, params, ctx),
    "POST /nodes/{node}/qemu/{vmid}/status/stop": (params, ctx) => requestStop(deps, params, ctx),
    "POST /nodes/{node}/qemu/{vmid}/status/shutdown": (params, ctx) => requestShutdown(deps, params, ctx),
    "POST /nodes/{node}/qemu/{vmid}/status/reboot": (params, ctx) => requestReboot(deps, params, ctx),
    "POST /nodes/{node}/qemu/{vmid}/status/reset": (params, ctx) => requestReset(deps, params, ctx),
    "POST /nodes/{node}/qemu/{vmid}/status/suspend": (params, ctx) => requestSuspend(deps, params, ctx),
    "POST /nodes/{node}/qemu/{vmid}/status/resume": (params, ctx) => requestResume(deps, params, ctx),
  };
}
