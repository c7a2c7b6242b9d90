// What must be different on a cluster of Talos than in the sources of add-ons.
import { createHash } from "node:crypto";
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import { isProxmoxInitializing, waitsForController } from "../cluster/cloud-controllers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { KubernetesObject } from "../kubernetes/kubernetes.ts";

interface PodSpec {
  containers: { args?: string[] }[];
  tolerations?: object[];
}

interface Workload {
  spec?: {
    template?: { spec: PodSpec };
    jobTemplate?: { spec: { template: { spec: PodSpec } } };
  };
}

/** Kubelets sign their own serving certificates unless a controller approves them. */
export function withKubeletTls(object: KubernetesObject): KubernetesObject {
  if (object.kind !== "Deployment") return object;
  return changed(object, ({ containers }) => {
    for (const container of containers)
      container.args = [...(container.args ?? []), "--kubelet-insecure-tls"];
  });
}

/** Made for Talos, Proxmox' controller leaves it to Talos' one to know new nodes; without that it must do it. */
export function withInitialization(object: KubernetesObject, cluster: Cluster): KubernetesObject {
  if (object.kind !== "Deployment" || !isProxmoxInitializing(cluster)) return object;
  const alone = "--controllers=cloud-node-lifecycle";
  return changed(object, ({ containers }) => {
    for (const container of containers)
      container.args = (container.args ?? []).map((arg) =>
        arg === alone ? "--controllers=cloud-node,cloud-node-lifecycle" : arg,
      );
  });
}

/** A network is there before the controller that takes the nodes' taint away, which needs it to start. */
export function withEarlyPods(object: KubernetesObject, cluster: Cluster): KubernetesObject {
  if (!waitsForController(cluster)) return object;
  const early = changed(object, (pod) => {
    pod.tolerations = [...(pod.tolerations ?? []), UNINITIALIZED];
  });
  if (early.kind !== "Job") return early;
  // Pods of a job never change: with another name it is another one, and the one before it is deleted.
  const digest = createHash("sha256").update(canonicalJson(early)).digest("hex").slice(0, 8);
  return { ...early, metadata: { ...early.metadata, name: `${early.metadata.name}-${digest}` } };
}

const UNINITIALIZED = {
  key: "node.cloudprovider.kubernetes.io/uninitialized",
  operator: "Exists",
  effect: "NoSchedule",
};

function changed(object: KubernetesObject, change: (pod: PodSpec) => void): KubernetesObject {
  const copy = structuredClone(object) as KubernetesObject & Workload;
  const pod = copy.spec?.template?.spec ?? copy.spec?.jobTemplate?.spec.template.spec;
  if (pod !== undefined) change(pod);
  return copy;
}
