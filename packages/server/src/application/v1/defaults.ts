// What is taken where a request does not say: storages of the cluster, and what the configuration of a node has for its VMs.
import { given } from "@gpve/contracts/given.ts";
import type { Defaults } from "@gpve/contracts/v1/bodies.ts";
import { chosenStorages, storageDefaults } from "@gpve/domain/cluster/storage-defaults.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { VmDefaults } from "@gpve/domain/vm/spec/vm-defaults.ts";
import type { Records } from "@gpve/store/records/port.ts";

export interface DefaultsDeps {
  readonly records: Records;
  readonly board: Pick<NodeBoard, "get">;
}

/** Of VMs of that node. A storage that nobody chose is no default: the disk must name one then. */
export function vmDefaultsOf({ records, board }: DefaultsDeps, node: string): VmDefaults {
  const { vmDisk } = storageDefaults(records);
  return { ...given({ vmDisk }), ...board.get(node)?.report?.defaults };
}

/** As clients are shown them; without a node those of the cluster alone. */
export function clusterDefaults({ records, board }: DefaultsDeps, node: string | undefined): Defaults {
  return { storage: chosenStorages(records), ...board.get(node ?? "")?.report?.defaults };
}
