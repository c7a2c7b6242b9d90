// Keys and monitor commands for a running VM.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import {
  giveCommand,
  sendKeys,
  switchDbusState,
  type MonitorRequestPorts,
} from "../../../application/qemu/request/monitor-requests.ts";

export function createVmMonitorHandlers(host: MonitorRequestPorts): PveHandlers {
  return {
    "PUT /nodes/{node}/qemu/{vmid}/sendkey": (asked, ctx) => sendKeys(host, asked, ctx),
    "POST /nodes/{node}/qemu/{vmid}/dbus-vmstate": (asked) => switchDbusState(host, asked),
    "POST /nodes/{node}/qemu/{vmid}/monitor": (asked, ctx) => giveCommand(host, asked, ctx),
  };
}
