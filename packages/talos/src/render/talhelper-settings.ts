// Settings of cluster.yaml that talhelper has no keys for, as a patch in its talconfig.yaml. talhelper makes
// configurations of the Talos version, whatever the cluster's contract is.
import { platformNames, readsTalosApi, waitsForController } from "../cluster/cloud-controllers.ts";
import { localApiPort } from "../cluster/cluster-inputs.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import { writeConfig } from "../config/config-text.ts";
import { compact, type ConfigDocument, typedDocument, unlessEmpty } from "../config/document.ts";
import { talosApiAccess } from "../config/policies.ts";
import { isOfKubelet, registeredTaints } from "../kubernetes/node-marks.ts";
import { type ConfigContract, contractOf } from "../contract/contracts.ts";

/** Of all machines; undefined: there are none. */
export function talhelperSettings(cluster: Cluster): string | undefined {
  const contract = contractOf(cluster.versions.talos);
  return textOf([
    ...(waitsForController(cluster) ? [{ cluster: { externalCloudProvider: { enabled: true } } }] : []),
    ...timeServers(cluster, contract),
    ...mirrors(cluster, contract),
    ...discovery(cluster, contract),
    ...kubeSpan(cluster, contract),
    ...encryption(cluster),
  ]);
}

export function controlPlaneSettings(cluster: Cluster): string | undefined {
  const isDocument = contractOf(cluster.versions.talos).kubernetes === "document";
  const port = localApiPort(cluster);
  const access = isDocument
    ? typedDocument("KubeTalosAPIAccessConfig", talosApiAccess)
    : { machine: { features: { kubernetesTalosAPIAccess: { enabled: true, ...talosApiAccess } } } };
  const listening = isDocument
    ? typedDocument("KubeAPIServerConfig", { apiPort: port })
    : { cluster: { controlPlane: compact({ localAPIServerPort: port }) } };
  return textOf([...(readsTalosApi(cluster) ? [access] : []), ...(port === undefined ? [] : [listening])]);
}

/** By what the platform's controllers find it, and a worker's taints, which it gives its node as it registers; labels of its own are talhelper's nodeLabels. */
export function machineSettings(cluster: Cluster, machine: Machine): string | undefined {
  const names = platformNames(cluster, machine);
  const extraArgs = names === undefined ? undefined : { "provider-id": names.id };
  const taints = registeredTaints(machine);
  if (extraArgs === undefined && taints === undefined) return undefined;
  const labels = unlessEmpty(
    Object.fromEntries(
      Object.entries(names?.labels ?? {}).filter(([key]) => !Object.hasOwn(machine.labels, key)),
    ),
  );
  if (contractOf(cluster.versions.talos).kubernetes !== "document")
    return textOf([
      { machine: compact({ kubelet: compact({ extraArgs, extraConfig: taints }), nodeLabels: labels }) },
    ]);
  return textOf([
    ...(labels === undefined ? [] : [typedDocument("KubeNodeConfig", { labels })]),
    typedDocument("KubeletConfig", { extraArgs, config: taints }),
  ]);
}

const textOf = (documents: Documents): string | undefined =>
  documents.length === 0 ? undefined : writeConfig(documents);

/** What the file cannot say, because it holds no secrets. */
export function talhelperLeaves({ talos, pools }: Cluster): readonly string[] {
  const labels = new Set(
    pools.flatMap((pool) => Object.keys(pool.labels).filter((key) => !isOfKubelet(key))),
  );
  return [
    ...(talos.diskEncryption === "static"
      ? ["talos.diskEncryption: static is not in this file: each machine's passphrase is in nodes/NAME.yaml."]
      : []),
    ...[...labels].map((key) => `No worker may label its node ${key}: kubectl label node NAME ${key}=VALUE.`),
  ];
}

type Documents = readonly ConfigDocument[];

function timeServers({ network: { ntp } }: Cluster, contract: ConfigContract): Documents {
  if (ntp.length === 0) return [];
  return contract.hostname === "document"
    ? [typedDocument("TimeSyncConfig", { ntp: { servers: ntp } })]
    : [{ machine: { time: { servers: ntp } } }];
}

function mirrors({ talos }: Cluster, contract: ConfigContract): Documents {
  const said = Object.entries(talos.registries.mirrors);
  if (said.length === 0) return [];
  return contract.registries === "document"
    ? said.map(([name, urls]) =>
        typedDocument("RegistryMirrorConfig", { name, endpoints: urls.map((url) => ({ url })) }),
      )
    : [
        {
          machine: {
            registries: {
              mirrors: Object.fromEntries(said.map(([name, endpoints]) => [name, { endpoints }] as const)),
            },
          },
        },
      ];
}

function discovery({ talos }: Cluster, contract: ConfigContract): Documents {
  const { enabled, endpoint } = talos.discovery;
  if (contract.kubernetes === "document") {
    const own = (fields: ConfigDocument) => [
      typedDocument("DiscoveryServiceConfig", { name: "default", ...fields }),
    ];
    return !enabled ? own({ $patch: "delete" }) : endpoint === null ? [] : own({ endpoint });
  }
  return [
    ...(enabled ? [] : [{ cluster: { discovery: { enabled } } }]),
    ...(endpoint === null ? [] : [{ cluster: { discovery: { registries: { service: { endpoint } } } } }]),
  ];
}

function kubeSpan({ talos: { kubespan: enabled } }: Cluster, contract: ConfigContract): Documents {
  if (!enabled) return [];
  return contract.kubeSpan === "document"
    ? [typedDocument("KubeSpanConfig", { enabled })]
    : [{ machine: { network: { kubespan: { enabled } } } }];
}

function encryption({ talos }: Cluster): Documents {
  if (talos.diskEncryption !== "tpm") return [];
  return ["STATE", "EPHEMERAL"].map((name) =>
    typedDocument("VolumeConfig", { name, encryption: { provider: "luks2", keys: [{ slot: 0, tpm: {} }] } }),
  );
}
