// What Talos refuses in a whole configuration, as far as patches of people run into it: told before any machine is
// given one, instead of by the first machine in the midst of an apply.
import { isObject } from "@gpve/contracts/json-object.ts";
import { didYouMean } from "@gpve/kit/did-you-mean.ts";
import { type ContractName, contracts } from "../contract/contracts.ts";
import type { ConfigDocument, Value } from "./document.ts";

interface Refusal {
  /** "v1alpha1", "KubeSpanConfig" or "VolumeConfig/EPHEMERAL". */
  readonly document: string;
  readonly path: readonly string[];
  /** Goes on after "PATH (from FILE)". */
  readonly why: string;
}

export function refusalsOf(documents: readonly ConfigDocument[], talos: ContractName): readonly Refusal[] {
  const main = documents.find((document) => document["kind"] === undefined);
  return [
    ...Object.entries(keysOf).flatMap(([place, known]) => unknownKeys(main, pathOf(place), known)),
    ...documents.flatMap((document) => newerKind(document, talos)),
    ...Object.entries(excludes).flatMap(([owner, places]) => {
      const [kind = "", field] = owner.split(".");
      const isThere = documents.some(
        (document) => document["kind"] === kind && (field === undefined || Object.hasOwn(document, field)),
      );
      return isThere ? places.flatMap((place) => settledTwice(main, pathOf(place), kind)) : [];
    }),
  ];
}

const pathOf = (place: string): readonly string[] => (place === "" ? [] : place.split("."));

function unknownKeys(
  main: ConfigDocument | undefined,
  place: readonly string[],
  known: readonly string[],
): readonly Refusal[] {
  const value = at(main, place);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  return Object.keys(value)
    .filter((key) => !known.includes(key))
    .map((key) => {
      const near = didYouMean(key, known);
      const hint = near === undefined ? "" : `; did you mean ${near}?`;
      return { document: "v1alpha1", path: [...place, key], why: `is no key that Talos knows${hint}` };
    });
}

function newerKind({ kind, name }: ConfigDocument, talos: ContractName): readonly Refusal[] {
  if (typeof kind !== "string") return [];
  const names = Object.keys(contracts);
  const since = Object.entries(kindsSince).find(([, kinds]) => kinds.includes(kind))?.[0];
  if (since === undefined || names.indexOf(since) <= names.indexOf(talos)) return [];
  const document = typeof name === "string" ? `${kind}/${name}` : kind;
  return [
    { document, path: ["kind"], why: `is a document that Talos ${talos} does not know: ${since} brought it` },
  ];
}

function settledTwice(
  main: ConfigDocument | undefined,
  path: readonly string[],
  kind: string,
): readonly Refusal[] {
  const value = at(main, path);
  if (value === undefined || value === null) return [];
  return [
    { document: "v1alpha1", path, why: `and the document ${kind} exclude each other; write it as ${kind}` },
  ];
}

function at(tree: Value | undefined, path: readonly string[]): Value | undefined {
  return path.reduce<Value | undefined>(
    (value, key) =>
      isObject(value) && Object.hasOwn(value, key) ? (value as ConfigDocument)[key] : undefined,
    tree,
  );
}

/** Keys of a section of the v1alpha1 document, as far as it is known here. */
export const knownKeys = (place: readonly string[]): readonly string[] => keysOf[place.join(".")] ?? [];

const words = (text: string): readonly string[] => text.trim().split(/\s+/);

/** Keys of the v1alpha1 document, which no minor of Talos adds to any more. */
const keysOf: Readonly<Record<string, readonly string[]>> = {
  "": words("version debug persist machine cluster"),
  machine:
    words(`type token ca acceptedCAs certSANs controlPlane kubelet pods network disks install files env time sysctls
    sysfs registries systemDiskEncryption features udev logging kernel seccompProfiles baseRuntimeSpecOverrides
    nodeLabels nodeAnnotations nodeTaints`),
  "machine.kubelet": words(`image clusterDNS extraArgs extraMounts extraConfig credentialProviderConfig
    defaultRuntimeSeccompProfileEnabled registerWithFQDN nodeIP skipNodeRegistration disableManifestsDirectory`),
  "machine.network": words(
    "hostname interfaces nameservers searchDomains extraHostEntries kubespan disableSearchDomain",
  ),
  cluster:
    words(`id secret controlPlane clusterName network token aescbcEncryptionSecret secretboxEncryptionSecret ca
    acceptedCAs aggregatorCA serviceAccount apiServer controllerManager proxy scheduler discovery etcd coreDNS
    externalCloudProvider extraManifests extraManifestHeaders inlineManifests adminKubeconfig
    allowSchedulingOnMasters allowSchedulingOnControlPlanes`),
  "cluster.network": words("cni dnsDomain podSubnets serviceSubnets"),
  "cluster.apiServer":
    words(`image extraArgs extraVolumes env certSANs disablePodSecurityPolicy admissionControl
    auditPolicy resources authorizationConfig`),
  "cluster.controllerManager": words("image extraArgs extraVolumes env resources"),
  "cluster.scheduler": words("image extraArgs extraVolumes env resources config"),
  "cluster.proxy": words("disabled image mode extraArgs"),
};

/** Documents that the generator writes for one minor and not for the one before. */
const kindsSince: Readonly<Partial<Record<ContractName, readonly string[]>>> = {
  "v1.12":
    words(`HostnameConfig LinkConfig LinkAliasConfig DHCPv4Config Layer2VIPConfig ResolverConfig TimeSyncConfig
    RegistryMirrorConfig`),
  "v1.13": ["KubeSpanConfig"],
  "v1.14":
    words(`DiscoveryServiceConfig DiscoveryIdentityConfig UnattendedInstallConfig SysctlConfig FilesystemTrimConfig
    SecurityProfileConfig KubeClusterConfig KubeNodeConfig KubeletConfig KubeNetworkConfig KubeAPIServerCAConfig
    KubePrismConfig KubeAggregatorCAConfig KubeAdmissionControlConfig KubeAuditPolicyConfig KubeAuthenticationConfig
    KubeAuthorizerConfig KubeEtcdEncryptionConfig KubeServiceAccountConfig KubeAPIServerConfig
    KubeControllerManagerConfig KubeSchedulerConfig KubeProxyConfig KubeFlannelCNIConfig KubeCoreDNSConfig
    KubeExternalManifestConfig KubeTalosAPIAccessConfig`),
};

/** By kind, or by a field of it, the places of the v1alpha1 document that must be empty beside it. */
const excludes: Readonly<Record<string, readonly string[]>> = {
  ResolverConfig: ["machine.network.nameservers", "machine.network.searchDomains"],
  "ResolverConfig.hostDNS": ["machine.features.hostDNS"],
  TimeSyncConfig: ["machine.time.servers"],
  KubeSpanConfig: ["machine.network.kubespan"],
  UnattendedInstallConfig: ["machine.install"],
  DiscoveryServiceConfig: ["cluster.discovery"],
  DiscoveryIdentityConfig: ["cluster.id", "cluster.secret"],
  KubeClusterConfig: ["cluster.clusterName", "cluster.controlPlane.endpoint"],
  KubeNodeConfig: [
    "machine.nodeLabels",
    "machine.nodeTaints",
    "machine.nodeAnnotations",
    "cluster.allowSchedulingOnControlPlanes",
    "cluster.allowSchedulingOnMasters",
  ],
  KubeletConfig: ["machine.kubelet"],
  KubeNetworkConfig: ["cluster.network"],
  KubePrismConfig: ["machine.features.kubePrism"],
  KubeAPIServerCAConfig: ["cluster.ca"],
  KubeAggregatorCAConfig: ["cluster.aggregatorCA"],
  KubeServiceAccountConfig: ["cluster.serviceAccount"],
  KubeAPIServerConfig: ["cluster.apiServer", "cluster.controlPlane.localAPIServerPort"],
  KubeControllerManagerConfig: ["cluster.controllerManager"],
  KubeSchedulerConfig: ["cluster.scheduler"],
  KubeProxyConfig: ["cluster.proxy"],
  KubeCoreDNSConfig: ["cluster.coreDNS"],
  KubeTalosAPIAccessConfig: ["machine.features.kubernetesTalosAPIAccess"],
  KubeEtcdEncryptionConfig: ["cluster.secretboxEncryptionSecret", "cluster.aescbcEncryptionSecret"],
};
