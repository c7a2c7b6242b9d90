// The first document of every configuration: the whole of it up to v1.11, a remainder from v1.14 on.
import { toBase64 } from "../secrets/base64-text.ts";
import type { AuthorityName, CertificateAndKey } from "../secrets/bundle.ts";
import { acceptedBeside } from "../secrets/rotation.ts";
import { type ConfigDocument, compact, unlessEmpty, type Value } from "./document.ts";
import { componentImage, kubeletImage, type KubernetesComponent } from "./images.ts";
import { type ConfigInputs, endpointHost, type MachineRole } from "./inputs.ts";
import {
  auditPolicy,
  EXCLUDE_FROM_LOAD_BALANCERS,
  podSecurityConfiguration,
  talosApiAccess,
} from "./policies.ts";

export function v1alpha1Document(role: MachineRole, inputs: ConfigInputs): ConfigDocument {
  return {
    version: "v1alpha1",
    debug: inputs.debug,
    persist: true,
    machine: machineSection(role, inputs),
    cluster: clusterSection(role, inputs),
  };
}

function machineSection(role: MachineRole, inputs: ConfigInputs): ConfigDocument {
  const { contract, secrets } = inputs;
  const isWhole = contract.kubernetes === "v1alpha1";
  return compact({
    type: role,
    token: secrets.trustdToken,
    ca: certificate(role, secrets.certs.os),
    acceptedCAs: accepted(inputs, "os"),
    certSANs: inputs.extraSans,
    kubelet: isWhole
      ? {
          image: kubeletImage(inputs.kubernetesVersion),
          defaultRuntimeSeccompProfileEnabled: true,
          disableManifestsDirectory: true,
        }
      : undefined,
    network: contract.kubeSpan === "v1alpha1" ? networkSection(inputs) : undefined,
    install: isWhole ? installSection(inputs) : undefined,
    sysctls: isWhole ? unlessEmpty(inputs.sysctls) : undefined,
    registries: contract.registries === "v1alpha1" ? registriesSection(inputs) : undefined,
    features: featuresSection(role, inputs),
    nodeLabels: isWhole && role === "controlplane" ? { [EXCLUDE_FROM_LOAD_BALANCERS]: "" } : undefined,
  });
}

function networkSection({ kubeSpan }: ConfigInputs): ConfigDocument {
  return kubeSpan === undefined ? {} : { kubespan: { enabled: kubeSpan } };
}

function installSection(inputs: ConfigInputs): ConfigDocument {
  return compact({
    disk: inputs.installDisk,
    extraKernelArgs: unlessEmpty(inputs.installExtraKernelArgs),
    image: inputs.installImage,
    wipe: false,
    grubUseUKICmdline: inputs.contract.grubUseUkiCmdline ? true : undefined,
  });
}

function registriesSection({ registryMirrors }: ConfigInputs): ConfigDocument | undefined {
  const mirrors = Object.entries(registryMirrors).map(([host, endpoints]) => [host, { endpoints }] as const);
  return mirrors.length === 0 ? undefined : { mirrors: Object.fromEntries(mirrors.toSorted(byFirst)) };
}

function featuresSection(
  role: MachineRole,
  { contract, kubePrismPort, talosApiAccess: isOpen }: ConfigInputs,
): ConfigDocument {
  const isWhole = contract.kubernetes === "v1alpha1";
  const fixed = contract.spellsOutFixedFeatures ? true : undefined;
  return compact({
    rbac: fixed,
    stableHostname: contract.hostname === "v1alpha1" ? true : undefined,
    kubernetesTalosAPIAccess:
      isWhole && isOpen && role === "controlplane" ? { enabled: true, ...talosApiAccess } : undefined,
    apidCheckExtKeyUsage: fixed,
    diskQuotaSupport: true,
    kubePrism: isWhole && kubePrismPort > 0 ? { enabled: true, port: kubePrismPort } : undefined,
    hostDNS: isWhole ? { enabled: true, forwardKubeDNSToHost: true } : undefined,
  });
}

function clusterSection(role: MachineRole, inputs: ConfigInputs): ConfigDocument {
  const { certs, bootstrapToken } = inputs.secrets;
  const etcd = role === "controlplane" ? { ca: encodePair(certs.etcd) } : undefined;
  // It has no document of its own.
  const externalCloudProvider = inputs.externalCloudProvider ? { enabled: true } : undefined;
  if (inputs.contract.kubernetes === "document")
    return compact({ token: bootstrapToken, etcd, externalCloudProvider });
  const controlPlane = role === "controlplane" ? controlPlaneSections(inputs) : undefined;
  return compact({
    id: inputs.secrets.cluster.id,
    secret: inputs.secrets.cluster.secret,
    controlPlane: compact({
      endpoint: inputs.endpoint,
      localAPIServerPort: role === "controlplane" ? inputs.localApiServerPort : undefined,
    }),
    clusterName: inputs.clusterName,
    network: compact({
      cni: cniSection(inputs),
      dnsDomain: inputs.dnsDomain,
      podSubnets: inputs.podSubnets,
      serviceSubnets: inputs.serviceSubnets,
    }),
    token: bootstrapToken,
    ...controlPlane?.encryption,
    ca: certificate(role, certs.k8s),
    acceptedCAs: accepted(inputs, "k8s"),
    ...controlPlane?.components,
    discovery: { enabled: inputs.discovery, registries: { kubernetes: { disabled: true }, service: {} } },
    etcd,
    externalCloudProvider,
    allowSchedulingOnControlPlanes:
      role === "controlplane" && inputs.allowSchedulingOnControlPlanes ? true : undefined,
  });
}

function controlPlaneSections(inputs: ConfigInputs) {
  const { certs, encryption } = inputs.secrets;
  const image = (component: KubernetesComponent) => ({
    image: componentImage(component, inputs.kubernetesVersion),
  });
  const components: Record<string, Value> = {
    aggregatorCA: encodePair(certs.k8sAggregator),
    serviceAccount: { key: toBase64(certs.k8sServiceAccount.key) },
    apiServer: compact({
      ...image("kube-apiserver"),
      certSANs: unlessEmpty([
        ...(inputs.contract.listsEndpointAsSan ? [endpointHost(inputs)] : []),
        ...inputs.extraSans,
      ]),
      disablePodSecurityPolicy: inputs.contract.spellsOutFixedFeatures ? true : undefined,
      admissionControl: [{ name: "PodSecurity", configuration: podSecurityConfiguration }],
      auditPolicy,
    }),
    controllerManager: image("kube-controller-manager"),
    proxy: { ...(inputs.kubeProxy ? {} : { disabled: true }), ...image("kube-proxy") },
    scheduler: image("kube-scheduler"),
  };
  return { encryption: { [`${encryption.kind}EncryptionSecret`]: encryption.secret }, components };
}

function cniSection({ cni }: ConfigInputs): ConfigDocument | undefined {
  switch (cni.type) {
    case "flannel":
      return undefined;
    case "none":
      return { name: "none" };
    case "custom":
      return { name: "custom", urls: [cni.url] };
  }
}

/** Only while an authority is being replaced. */
function accepted({ secrets }: ConfigInputs, name: AuthorityName): readonly Value[] | undefined {
  return unlessEmpty(acceptedBeside(secrets, name).map((crt) => ({ crt: toBase64(crt) })));
}

/** A worker never gets the key of an authority. */
function certificate(role: MachineRole, pair: CertificateAndKey): ConfigDocument {
  return role === "controlplane" ? encodePair(pair) : { crt: toBase64(pair.crt), key: "" };
}

function encodePair(pair: CertificateAndKey): ConfigDocument {
  return { crt: toBase64(pair.crt), key: toBase64(pair.key) };
}

function byFirst([a]: readonly [string, ...unknown[]], [b]: readonly [string, ...unknown[]]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
