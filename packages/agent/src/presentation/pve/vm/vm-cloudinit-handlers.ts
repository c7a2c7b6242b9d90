// What a VM's cloud-init drive holds, beside what its configuration says.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { apiValue } from "@gpve/domain/vm/config/api-config.ts";
import { cloudinitRows } from "@gpve/domain/vm/cloudinit/cloudinit-state.ts";
import {
  requestCloudinit,
  showCloudinit,
  type CloudinitRequestDeps,
} from "../../../application/qemu/request/cloudinit-requests.ts";

export function createVmCloudinitHandlers(deps: CloudinitRequestDeps): PveHandlers {
  return {
    "GET /nodes/{node}/qemu/{vmid}/cloudinit": ({ vmid }) =>
      cloudinitRows(deps.host.configs.get(vmid)).map(({ key, old, new: wanted }) =>
        wanted === undefined
          ? { key, delete: 1 }
          : {
              key,
              ...(old === undefined ? {} : { value: apiValue(key, old) }),
              ...(wanted === old ? {} : { pending: apiValue(key, wanted) }),
            },
      ),
    "PUT /nodes/{node}/qemu/{vmid}/cloudinit": ({ vmid }, ctx) => requestCloudinit(deps, vmid, ctx),
    "GET /nodes/{node}/qemu/{vmid}/cloudinit/dump": (asked, ctx) => showCloudinit(deps, asked, ctx),
  };
}
