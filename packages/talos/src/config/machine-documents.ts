// Documents about the machine itself: discovery, installation, resolver, volumes, registries, name.
import { type ConfigDocument, typedDocument, unlessEmpty } from "./document.ts";
import type { ConfigInputs } from "./inputs.ts";

const DISCOVERY_SERVICE = "https://discovery.talos.dev/";

export function machineDocuments(inputs: ConfigInputs): readonly ConfigDocument[] {
  const { contract } = inputs;
  return [
    ...(contract.kubernetes === "document" ? systemDocuments(inputs) : []),
    ...(contract.registries === "document" ? mirrorDocuments(inputs) : []),
    ...(contract.hostname === "document" ? [typedDocument("HostnameConfig", { auto: "stable" })] : []),
    ...(contract.kubeSpan === "document" && inputs.kubeSpan !== undefined
      ? [typedDocument("KubeSpanConfig", { enabled: inputs.kubeSpan })]
      : []),
  ];
}

function systemDocuments(inputs: ConfigInputs): readonly ConfigDocument[] {
  const { cluster } = inputs.secrets;
  const sysctls = unlessEmpty(inputs.sysctls);
  return [
    ...(inputs.discovery
      ? [typedDocument("DiscoveryServiceConfig", { name: "default", endpoint: DISCOVERY_SERVICE })]
      : []),
    typedDocument("DiscoveryIdentityConfig", { clusterID: cluster.id, clusterSecret: cluster.secret }),
    ...(inputs.installDisk === undefined ? [] : [installDocument(inputs.installDisk, inputs.installImage)]),
    typedDocument("ResolverConfig", { hostDNS: { enabled: true, forwardKubeDNSToHost: true } }),
    ...(sysctls === undefined ? [] : [typedDocument("SysctlConfig", { params: sysctls })]),
    typedDocument("VolumeConfig", { name: "EPHEMERAL", mount: { secure: true } }),
    typedDocument("FilesystemTrimConfig", { interval: "168h0m0s" }),
    typedDocument("SecurityProfileConfig", { workloadIsolation: true }),
  ];
}

function installDocument(disk: string, image: string | undefined): ConfigDocument {
  return typedDocument("UnattendedInstallConfig", {
    installer: image === undefined ? {} : { image },
    provisioning: {
      // A string of CEL, whose quoting is that of JSON.
      diskSelector: { match: `disk.dev_path == ${JSON.stringify(disk)}` },
      wipe: false,
    },
  });
}

function mirrorDocuments({ registryMirrors }: ConfigInputs): readonly ConfigDocument[] {
  return Object.entries(registryMirrors)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, endpoints]) =>
      typedDocument("RegistryMirrorConfig", { name, endpoints: endpoints.map((url) => ({ url })) }),
    );
}
