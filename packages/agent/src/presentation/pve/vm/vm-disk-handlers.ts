// PVE's methods that make, grow and take away a VM's disks.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { requireSnapshot } from "@gpve/domain/guest/snapshot/snapshot.ts";
import { hasFeatureOnAll } from "../../../application/qemu/disk/volume-features.ts";
import {
  requestClone,
  requestMove,
  requestResize,
  requestTemplate,
  type DiskRequestDeps,
} from "../../../application/qemu/request/disk-requests.ts";

export function createDiskHandlers(deps: DiskRequestDeps): PveHandlers {
  const { host } = deps;
  return {
    "POST /nodes/{node}/qemu/{vmid}/clone": (params, ctx) => requestClone(deps, params, ctx),
    "POST /nodes/{node}/qemu/{vmid}/template": (params, ctx) => requestTemplate(deps, params, ctx),
    "PUT /nodes/{node}/qemu/{vmid}/resize": (params, ctx) => requestResize(deps, params, ctx),
    "POST /nodes/{node}/qemu/{vmid}/move_disk": (params, ctx) => requestMove(deps, params, ctx),
    "GET /nodes/{node}/qemu/{vmid}/feature": ({ vmid, feature, snapname }) => {
      const config = host.configs.get(vmid);
      const values = snapname === undefined ? config.values : requireSnapshot(config, snapname);
      const hasFeature = hasFeatureOnAll(host, values, feature, snapname);
      // Where else its storages are, a node does not know: servers say so in its place.
      return { hasFeature, nodes: [host.configs.node] };
    },
  };
}
