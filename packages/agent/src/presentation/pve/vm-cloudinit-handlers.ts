// What a VM's cloud-init drive holds, beside what its configuration says.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { cloudinitRows } from "@gpve/domain/vm/cloudinit-state.ts";
import type { VmHost } from "../../application/vm/vm-host.ts";

export function createVmCloudinitHandlers(host: VmHost): PveHandlers {
  return {
    "GET /nodes/{node}/qemu/{vmid}/cloudinit": ({ vmid }) =>
      cloudinitRows(host.configs.get(vmid)).map(({ key, old, new: wanted }) => ({
        key,
        ...(old === undefined ? {} : { value: old }),
        ...(wanted === undefined ? { delete: 1 } : wanted === old ? {} : { pending: wanted }),
      })),
  };
}
