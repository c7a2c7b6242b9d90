// What a VM's cloud-init drive holds, beside what its configuration says.
import type { HostDns } from "@gpve/domain/node/host-ports.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { apiValue } from "@gpve/domain/vm/config/api-config.ts";
import { dumpCloudinit } from "@gpve/domain/vm/cloudinit/cloudinit-drive.ts";
import { cloudinitRows } from "@gpve/domain/vm/cloudinit/cloudinit-state.ts";
import { MASKED } from "@gpve/domain/vm/change/pending.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import {
  regenerateCloudinit,
  type RegenerateCloudinitPorts,
} from "../../../application/qemu/config/regenerate-cloudinit.ts";
import { vmKey, vmLock } from "../../../application/qemu/request/vm-tasks.ts";

export interface VmCloudinitDeps {
  readonly host: RegenerateCloudinitPorts;
  readonly engine: Pick<OperationEngine, "withResource">;
  /** The node's own name servers stand in for absent ones. */
  readonly dns: Pick<HostDns, "read">;
  readonly sha1: (text: string) => string;
}

export function createVmCloudinitHandlers({ host, engine, dns, sha1 }: VmCloudinitDeps): PveHandlers {
  return {
    "GET /nodes/{node}/qemu/{vmid}/cloudinit": ({ vmid }) =>
      cloudinitRows(host.configs.get(vmid)).map(({ key, old, new: wanted }) =>
        wanted === undefined
          ? { key, delete: 1 }
          : {
              key,
              ...(old === undefined ? {} : { value: apiValue(key, old) }),
              ...(wanted === old ? {} : { pending: apiValue(key, wanted) }),
            },
      ),
    "PUT /nodes/{node}/qemu/{vmid}/cloudinit": async ({ vmid }, ctx) => {
      const log = (line: string): void => ctx.log.info({ resource: `qemu/${vmid}` }, line);
      await engine.withResource(vmKey(vmid), vmLock(vmid, ctx.signal), () =>
        regenerateCloudinit(host, vmid, log),
      );
      return null;
    },
    "GET /nodes/{node}/qemu/{vmid}/cloudinit/dump": async ({ vmid, type }, ctx) => {
      const { values } = host.configs.get(vmid);
      const isHidden =
        values["cipassword"] !== undefined && !ctx.access.has(`/vms/${vmid}`, ["VM.Config.Cloudinit"]);
      const shown = isHidden ? { ...values, cipassword: MASKED } : values;
      return dumpCloudinit(shown, { vmid, dns: await dns.read(), sha1 }, type);
    },
  };
}
