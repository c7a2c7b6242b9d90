// The class of each kind of storage; one of them may be the cluster's own.
import type { Cluster } from "../cluster/cluster.ts";
import type { KubernetesObject } from "../kubernetes/kubernetes.ts";

type StorageName = "proxmox" | "nfs" | "ceph" | "localPath" | "localStorage";
type Settings = Readonly<Record<string, unknown>>;

interface ClassKind {
  readonly name: string;
  readonly provisioner: string;
  readonly waits: boolean;
  readonly grows: boolean;
  readonly parameters: (settings: Settings, cluster: Cluster) => Settings;
}

const classes: Readonly<Record<StorageName, ClassKind>> = {
  proxmox: {
    name: "proxmox",
    provisioner: "csi.proxmox.sinextra.dev",
    waits: true,
    grows: true,
    parameters: ({ storage }, { providers }) => ({
      "csi.storage.k8s.io/fstype": "ext4",
      storage: storage ?? providers[0]?.storage.vm ?? "",
    }),
  },
  nfs: {
    name: "nfs",
    provisioner: "nfs.csi.k8s.io",
    waits: false,
    grows: true,
    parameters: ({ server, share }) => ({ server: server ?? "", share: share ?? "" }),
  },
  ceph: {
    name: "ceph",
    provisioner: "rbd.csi.ceph.com",
    waits: false,
    grows: true,
    parameters: (settings) => settings,
  },
  localPath: {
    name: "local-path",
    provisioner: "rancher.io/local-path",
    waits: true,
    grows: false,
    parameters: () => ({}),
  },
  localStorage: {
    name: "local-storage",
    provisioner: "kubernetes.io/no-provisioner",
    waits: true,
    grows: false,
    parameters: () => ({}),
  },
};

export function storageClass(cluster: Cluster, name: StorageName): readonly KubernetesObject[] {
  const { csi } = cluster.addons;
  const { name: className, provisioner, waits, grows, parameters } = classes[name];
  const given = parameters(csi[name] ?? {}, cluster);
  return [
    {
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: {
        name: className,
        annotations: { "storageclass.kubernetes.io/is-default-class": String(csi.default === name) },
      },
      provisioner,
      volumeBindingMode: waits ? "WaitForFirstConsumer" : "Immediate",
      reclaimPolicy: "Delete",
      allowVolumeExpansion: grows,
      ...(Object.keys(given).length === 0 ? {} : { parameters: given }),
    },
  ];
}
