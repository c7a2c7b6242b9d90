// What a machine configuration is made from.
import { AppError } from "@gpve/contracts/errors.ts";
import type { ConfigContract } from "../contract/contracts.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";

export type MachineRole = "controlplane" | "worker";

export type CniChoice =
  | { readonly type: "flannel" }
  | { readonly type: "none" }
  | { readonly type: "custom"; readonly url: string };

export interface ConfigInputs {
  readonly contract: ConfigContract;
  readonly secrets: SecretsBundle;
  readonly clusterName: string;
  /** URL of the Kubernetes API. */
  readonly endpoint: string;
  /** Without the "v". */
  readonly kubernetesVersion: string;
  readonly dnsDomain: string;
  readonly podSubnets: readonly string[];
  readonly serviceSubnets: readonly string[];
  readonly extraSans: readonly string[];
  readonly allowSchedulingOnControlPlanes: boolean;
  readonly installDisk: string | undefined;
  readonly installImage: string | undefined;
  /** Not written from v1.14 on: there they belong into the image's schematic. */
  readonly installExtraKernelArgs: readonly string[];
  readonly localApiServerPort: number | undefined;
  readonly sysctls: Readonly<Record<string, string>>;
  readonly cni: CniChoice;
  readonly kubeProxy: boolean;
  /** Registry host to the endpoints asked in its place. */
  readonly registryMirrors: Readonly<Record<string, readonly string[]>>;
  readonly discovery: boolean;
  /** undefined: nothing is said about it. */
  readonly kubeSpan: boolean | undefined;
  /** Kubelets leave it to a controller of the cluster to know their nodes. */
  readonly externalCloudProvider: boolean;
  /** Pods of kube-system may be let read the machines' own API. */
  readonly talosApiAccess: boolean;
  /** 0: switched off. */
  readonly kubePrismPort: number;
  readonly debug: boolean;
}

export type RequiredInputs = Pick<
  ConfigInputs,
  "contract" | "secrets" | "clusterName" | "endpoint" | "kubernetesVersion"
>;

const defaults: Omit<ConfigInputs, keyof RequiredInputs> = {
  dnsDomain: "cluster.local",
  podSubnets: ["10.244.0.0/16"],
  serviceSubnets: ["10.96.0.0/12"],
  extraSans: [],
  allowSchedulingOnControlPlanes: false,
  installDisk: undefined,
  installImage: undefined,
  installExtraKernelArgs: [],
  localApiServerPort: undefined,
  sysctls: {},
  cni: { type: "flannel" },
  kubeProxy: true,
  registryMirrors: {},
  discovery: true,
  kubeSpan: undefined,
  externalCloudProvider: false,
  talosApiAccess: false,
  kubePrismPort: 7445,
  debug: false,
};

/** Fills in the defaults of `talosctl gen config` and refuses what no machine could use. */
export function configInputs(given: RequiredInputs & Partial<ConfigInputs>): ConfigInputs {
  const inputs = { ...defaults, ...given, kubernetesVersion: given.kubernetesVersion.replace(/^v/, "") };
  if (inputs.clusterName === "") throw new AppError("config.invalid", "a cluster needs a name");
  if (!/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/.test(inputs.kubernetesVersion)) {
    throw new AppError(
      "config.invalid",
      `"${given.kubernetesVersion}" is no Kubernetes version; write it as 1.36.3`,
    );
  }
  const url = URL.parse(inputs.endpoint);
  if (url === null || url.protocol !== "https:" || url.hostname === "") {
    throw new AppError(
      "config.invalid",
      `the endpoint "${inputs.endpoint}" is no https URL; write it as https://10.0.0.9:6443`,
    );
  }
  if (inputs.secrets.encryption.kind === "aescbc" && inputs.contract.kubernetes === "document") {
    throw new AppError(
      "feature.unsupported",
      `the secrets bundle encrypts with AES-CBC, which ${inputs.contract.name} configurations are not made for; keep v1.13`,
      { data: { next: "Write versions.contract: v1.13." } },
    );
  }
  return inputs;
}

/** Host of the endpoint as a certificate names it: without brackets. */
export function endpointHost(inputs: Pick<ConfigInputs, "endpoint">): string {
  return new URL(inputs.endpoint).hostname.replace(/^\[(.*)\]$/, "$1");
}
