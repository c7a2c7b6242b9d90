// Whether persistent volumes of a cluster may be on the storage that its spec names.
import type { Fields } from "@gpve/contracts/json-object.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { contentOf, isDisabled, servesNode, storageCollection } from "@gpve/domain/storage/definition.ts";
import { invalidSpec } from "@gpve/domain/vcluster/invalid-spec.ts";
import { readVirtualClusterSpec, type VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { Records } from "@gpve/store/records/port.ts";

type Spec = Pick<VirtualClusterSpec, "volumeStorage">;

/** Whoever makes it takes room there, as with a disk. */
export function requireVolumeStorage(
  records: Pick<Records, "collection">,
  { volumeStorage }: Spec,
  { access }: Pick<RequestContext, "access">,
): void {
  if (volumeStorage === undefined) return;
  access.require(`/storage/${volumeStorage}`, ["Datastore.AllocateSpace"]);
  const found = records.collection(storageCollection).get(volumeStorage)?.value;
  if (found === undefined) throw invalidSpec("volumes.storage", `there is no storage '${volumeStorage}'`);
  if (isDisabled(found)) throw invalidSpec("volumes.storage", `storage '${volumeStorage}' is disabled`);
  if (!contentOf(found).has("volumes"))
    throw invalidSpec(
      "volumes.storage",
      `storage '${volumeStorage}' is not for persistent volumes: its content has to have 'volumes'`,
    );
}

/** Why a node cannot have them; undefined: it can. */
export function whyNoVolumes(
  records: Pick<Records, "collection">,
  node: string,
  { volumeStorage }: Spec,
): string | undefined {
  if (volumeStorage === undefined) return undefined;
  const found = records.collection(storageCollection).get(volumeStorage)?.value;
  return found !== undefined && servesNode(found, node)
    ? undefined
    : `it does not have storage ${volumeStorage}`;
}

/** Of a backup whose storage is not there any more, as in another installation: its volumes are in the folders of its workers. */
export function volumesElsewhere(records: Pick<Records, "collection">, spec: Fields): Fields {
  const { volumeStorage } = readVirtualClusterSpec(spec);
  const isThere =
    volumeStorage !== undefined && records.collection(storageCollection).get(volumeStorage) !== undefined;
  if (isThere || volumeStorage === undefined) return spec;
  const { volumes: _gone, ...kept } = spec;
  return kept;
}
