// Persistent volumes that are folders of a worker: whoever claims one gets it where his pod is.

export const LOCAL_PROVISIONER = "gpve.io/local";
/** In a worker's own view of its files. */
export const VOLUMES_FOLDER = "gpve-volumes";
const VOLUMES_PATH = `/var/lib/kubelet/${VOLUMES_FOLDER}`;
/** Of the volume for a claim; what is named otherwise is none of ours. */
const NAME = /^pvc-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** For the guard's rules. Whatever is below is the cluster's own. */
export const VOLUME_PATTERN = `^${VOLUMES_PATH}/pvc-[0-9a-f-]{36}$`;

export const localStorageClass = {
  apiVersion: "storage.k8s.io/v1",
  kind: "StorageClass",
  metadata: {
    name: "local",
    labels: { "app.kubernetes.io/managed-by": "gpve" },
    annotations: { "storageclass.kubernetes.io/is-default-class": "true" },
  },
  provisioner: LOCAL_PROVISIONER,
  reclaimPolicy: "Delete",
  // A folder is on one worker: the pod is placed first.
  volumeBindingMode: "WaitForFirstConsumer",
} as const;

export interface VolumeClaim {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: {
    readonly storageClassName?: string;
    readonly volumeName?: string;
    readonly accessModes?: readonly string[];
    readonly volumeMode?: string;
    readonly resources?: { readonly requests?: { readonly storage?: string } };
  };
  readonly status?: { readonly phase?: string };
}

export interface Volume {
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: {
    readonly persistentVolumeReclaimPolicy?: string;
    readonly local?: { readonly path?: string };
    readonly nodeAffinity?: {
      readonly required?: {
        readonly nodeSelectorTerms?: readonly {
          readonly matchExpressions?: readonly { readonly values?: readonly string[] }[];
        }[];
      };
    };
  };
  readonly status?: { readonly phase?: string };
}

/** The worker that a waiting claim shall be served on; undefined = it is none of ours, or nobody uses it yet. */
export function claimedOn({ metadata, spec, status }: VolumeClaim): string | undefined {
  const isWaiting = status?.phase === "Pending" && (spec.volumeName ?? "") === "";
  if (!isWaiting || spec.volumeMode === "Block") return undefined;
  if (metadata.annotations?.["volume.kubernetes.io/storage-provisioner"] !== LOCAL_PROVISIONER)
    return undefined;
  return metadata.annotations["volume.kubernetes.io/selected-node"];
}

export function volumeNameFor({ metadata }: VolumeClaim): string | undefined {
  const name = `pvc-${metadata.uid}`;
  return NAME.test(name) ? name : undefined;
}

export function volumeFor(
  claim: VolumeClaim,
  name: string,
  vnode: string,
): Readonly<Record<string, unknown>> {
  const { metadata, spec } = claim;
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name, annotations: { "pv.kubernetes.io/provisioned-by": LOCAL_PROVISIONER } },
    spec: {
      capacity: { storage: spec.resources?.requests?.storage ?? "1Gi" },
      accessModes: spec.accessModes ?? ["ReadWriteOnce"],
      persistentVolumeReclaimPolicy: "Delete",
      storageClassName: spec.storageClassName ?? localStorageClass.metadata.name,
      claimRef: {
        apiVersion: "v1",
        kind: "PersistentVolumeClaim",
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
      },
      local: { path: `${VOLUMES_PATH}/${name}` },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [
            { matchExpressions: [{ key: "kubernetes.io/hostname", operator: "In", values: [vnode] }] },
          ],
        },
      },
    },
  };
}

/** One of ours, whose data nobody wants to keep longer than the object. */
export function goesWithItsObject({ metadata, spec }: Volume): boolean {
  const isOurs = metadata.annotations?.["pv.kubernetes.io/provisioned-by"] === LOCAL_PROVISIONER;
  return isOurs && NAME.test(metadata.name) && spec.persistentVolumeReclaimPolicy === "Delete";
}

/** The worker of a volume of ours that nobody claims any more; undefined = it stays. */
export function releasedFrom(volume: Volume): string | undefined {
  const { spec, status } = volume;
  if (status?.phase !== "Released" || !goesWithItsObject(volume)) return undefined;
  return spec.nodeAffinity?.required?.nodeSelectorTerms?.[0]?.matchExpressions?.[0]?.values?.[0];
}
