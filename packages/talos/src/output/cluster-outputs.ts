// What scripts ask about a cluster, by stable names.
import { AppError } from "@gpve/contracts/errors.ts";
import { didYouMean } from "@gpve/kit/did-you-mean.ts";
import { endpointUrl, installerImage } from "../cluster/cluster-inputs.ts";
import type { Machine } from "../cluster/machine.ts";
import type { ClusterFolder } from "../folder/cluster-folder.ts";
import { imageFile } from "../image/image-file.ts";

/** Shown by name only, and when asked for alone. */
export const sensitiveOutputs = ["talosconfig", "kubeconfig"] as const;
export type SensitiveOutput = (typeof sensitiveOutputs)[number];

export type Outputs = Readonly<Record<string, unknown>>;

export function clusterOutputs({ cluster, machines }: Pick<ClusterFolder, "cluster" | "machines">): Outputs {
  const of = (role: Machine["role"]): readonly string[] =>
    machines.filter((machine) => machine.role === role).map(({ addresses }) => addresses[0] ?? "");
  const image = imageFile(cluster, cluster.image.arch);
  return {
    cluster_name: cluster.metadata.name,
    cluster_labels: cluster.metadata.labels,
    talos_version: cluster.versions.talos,
    kubernetes_version: cluster.versions.kubernetes,
    contract: cluster.versions.contract,
    endpoint: endpointUrl(cluster, machines),
    control_plane_ips: of("controlplane"),
    worker_ips: of("worker"),
    schematic_id: image.schematic,
    image_url: image.url,
    installer_image: installerImage(cluster),
    machines: machines.map(({ name, role, pool, provider, host, vmid, addresses, mac, uuid, size }) => ({
      name,
      role,
      pool,
      provider,
      host,
      vmid,
      addresses,
      mac,
      uuid,
      cores: size.cores,
      memoryMiB: size.memoryMiB,
      diskGiB: size.diskGiB,
    })),
  };
}

/** As modules of Terraform call them, where their scripts go on. */
const familiarNames: Readonly<Record<string, SensitiveOutput>> = {
  talos_client_configuration: "talosconfig",
  client_configuration: "talosconfig",
  talos_config: "talosconfig",
  kubernetes_client_configuration: "kubeconfig",
  kube_config: "kubeconfig",
};

export const outputName = (name: string): string =>
  Object.hasOwn(familiarNames, name) ? (familiarNames[name] ?? name) : name;

export function isSensitive(name: string): name is SensitiveOutput {
  return sensitiveOutputs.some((each) => each === name);
}

/** Text as a script wants it: a list has an item on each line. */
export function rawOutput(outputs: Outputs, name: string): string {
  const value = outputs[name];
  if (value === undefined) {
    const names = [...Object.keys(outputs), ...sensitiveOutputs];
    const near = didYouMean(name, names);
    throw new AppError(
      "object.not_found",
      `there is no output "${name}"${near === undefined ? `; there are ${names.join(", ")}` : `; did you mean ${near}?`}`,
    );
  }
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value.join("\n");
  return typeof value === "string" ? value : JSON.stringify(value);
}
