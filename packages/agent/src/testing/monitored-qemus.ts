// Supervised QEMUs whose command lines tests write by hand: they get the monitors that a VM's command line has.
import type { CallOptions } from "@gpve/domain/guest/guest-processes.ts";
import { monitorArguments, monitorPaths } from "@gpve/domain/vm/argv/machine/monitors.ts";
import type { QemuProcess, QemuStart } from "@gpve/domain/vm/qemu-processes.ts";
import { SupervisedQemus } from "../infrastructure/guest-process/supervised-qemus.ts";

export class MonitoredQemus extends SupervisedQemus {
  override startQemu(start: QemuStart, options?: CallOptions): Promise<QemuProcess> {
    if (start.args.includes("-mon")) return super.startQemu(start, options);
    const monitors = monitorArguments(monitorPaths(this.placeOf(start.id)));
    return super.startQemu({ ...start, args: [...start.args, ...monitors] }, options);
  }
}
