// What can be looked at of a VM besides its console: its screen as a picture, and what its QEMU has said.
import { conflict } from "@gpve/domain/request/failures.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { OwnHandlers } from "../../agent.ts";
import { runningVm } from "../running-vm.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import type { Ids } from "@gpve/domain/guest/ids.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";

export interface VmViewsPorts {
  readonly configs: VmConfigs;
  readonly ids: Ids;
  readonly processes: QemuProcesses;
}

export interface VmViewsDeps {
  readonly host: VmViewsPorts;
  /** A file that a guest has written, which is removed. Refuses what that guest did not write itself. */
  readonly takeFile: (path: string, ownerUid: number | undefined) => Promise<Uint8Array>;
  /** The end of what the VM's QEMU printed, also after it has ended. */
  readonly lastWords: (vmid: number) => string;
}

type ViewRoute = `GET /gpve/nodes/{node}/vms/{vmid}/${"screenshot" | "log"}`;

export function vmViewRoutes(deps: VmViewsDeps): OwnHandlers<ViewRoute> {
  const { host, takeFile, lastWords } = deps;
  return {
    "GET /gpve/nodes/{node}/vms/{vmid}/screenshot": async ({ vmid }, ctx) => {
      ctx.access.require(`/vms/${vmid}`, ["VM.Console"]);
      host.configs.get(vmid);
      const process = runningVm(host, vmid);
      if (process === undefined) throw conflict(`VM ${vmid} not running`);
      const filename = `${process.ioFolder}/screen-${host.ids.newUuid()}.png`;
      try {
        await process.qmp.execute("screendump", { filename, format: "png" }, { signal: ctx.signal });
      } catch (err) {
        throw new AppError("feature.unsupported", `VM ${vmid} has no screen to take a picture of`, {
          cause: err,
        });
      }
      return { png: Buffer.from(await takeFile(filename, process.uid)).toString("base64") };
    },

    "GET /gpve/nodes/{node}/vms/{vmid}/log": ({ vmid }, ctx) => {
      ctx.access.require(`/vms/${vmid}`, ["VM.Audit"]);
      host.configs.get(vmid);
      const text = lastWords(vmid);
      return { lines: text === "" ? [] : text.split("\n") };
    },
  };
}
