// What `talosctl gen config` writes differently from one Talos minor to the next, as data. A cluster is created under
// one contract and keeps it: a field of the v1alpha1 document and the document that replaces it exclude each other.
import { AppError } from "@gpve/contracts/errors.ts";

/** Where a setting is written: in the v1alpha1 document, or in a document of its own. */
export type Place = "v1alpha1" | "document";

export interface ConfigContract {
  readonly name: ContractName;
  readonly clusterIdEncoding: "base64url" | "base64";
  /** `rbac`, `apidCheckExtKeyUsage` and `disablePodSecurityPolicy` are written although nothing else is possible. */
  readonly spellsOutFixedFeatures: boolean;
  /** The host of the endpoint is listed among the API server's names. */
  readonly listsEndpointAsSan: boolean;
  readonly grubUseUkiCmdline: boolean;
  readonly hostname: Place;
  readonly registries: Place;
  readonly kubeSpan: Place;
  /** Kubernetes, discovery, installation, sysctls and the host's DNS moved out together. */
  readonly kubernetes: Place;
}

export type ContractName = "v1.11" | "v1.12" | "v1.13" | "v1.14";

const v111: ConfigContract = {
  name: "v1.11",
  clusterIdEncoding: "base64url",
  spellsOutFixedFeatures: true,
  listsEndpointAsSan: true,
  grubUseUkiCmdline: false,
  hostname: "v1alpha1",
  registries: "v1alpha1",
  kubeSpan: "v1alpha1",
  kubernetes: "v1alpha1",
};
const v112: ConfigContract = {
  ...v111,
  name: "v1.12",
  spellsOutFixedFeatures: false,
  listsEndpointAsSan: false,
  grubUseUkiCmdline: true,
  hostname: "document",
  registries: "document",
};
const v113: ConfigContract = { ...v112, name: "v1.13", kubeSpan: "document" };
const v114: ConfigContract = {
  ...v113,
  name: "v1.14",
  clusterIdEncoding: "base64",
  kubernetes: "document",
};

export const contracts: Readonly<Record<ContractName, ConfigContract>> = {
  "v1.11": v111,
  "v1.12": v112,
  "v1.13": v113,
  "v1.14": v114,
};

/** The contract of a Talos version ("v1.13.9", "1.13") or of a contract's own name. */
export function contractOf(version: string): ConfigContract {
  const [, major, minor] = /^v?(\d+)\.(\d+)(?:\.\d+(?:-[0-9A-Za-z.-]+)?)?$/.exec(version) ?? [];
  if (major === undefined || minor === undefined) {
    throw new AppError("config.invalid", `"${version}" is no Talos version; write it as v1.13.9`);
  }
  const name = `v${Number(major)}.${Number(minor)}`;
  if (isContractName(name)) return contracts[name];
  const names = Object.keys(contracts);
  const isOlder = Number(major) < 1 || (Number(major) === 1 && Number(minor) < 11);
  const nearest = isOlder ? names[0] : names.at(-1);
  throw new AppError(
    "feature.unsupported",
    `no machine configuration can be made for Talos ${version}: ${names.join(", ")} are known; the nearest is ${nearest}`,
  );
}

function isContractName(name: string): name is ContractName {
  return Object.hasOwn(contracts, name);
}
