// On which nodes what is asked of a VM's disks could be done as well: where all their storages are.
import { parseVolumeId } from "../../storage/volume-id.ts";
import { isDisabled, isShared, servesNode, type StorageDefinition } from "../../storage/definition.ts";
import { listDrives } from "../config/drive.ts";
import type { VmValues } from "../config/vm-config.ts";

/** Of `nodes`, sorted; `at` is where the VM is: what is not shared is there only. */
export function sharedNodes(
  values: VmValues,
  definitions: readonly StorageDefinition[],
  { at, nodes }: { readonly at: string; readonly nodes: readonly string[] },
): readonly string[] {
  const named = listDrives(values).flatMap(({ drive }) => parseVolumeId(drive.file)?.storage ?? []);
  const used = [...new Set(named)].map((name) => definitions.find(({ storage }) => storage === name));
  const serves = (node: string): boolean =>
    used.every(
      (storage) =>
        storage !== undefined &&
        !isDisabled(storage) &&
        servesNode(storage, node) &&
        (node === at || isShared(storage)),
    );
  return nodes.filter(serves).toSorted();
}
