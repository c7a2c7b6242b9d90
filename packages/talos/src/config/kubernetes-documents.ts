// Kubernetes as documents of its own, from v1.14 on.
import { acceptedBeside } from "../secrets/rotation.ts";
import { type ConfigDocument, typedDocument, unlessEmpty } from "./document.ts";
import { componentImage, kubeletImage, type KubernetesComponent } from "./images.ts";
import type { ConfigInputs, MachineRole } from "./inputs.ts";
import {
  auditPolicy,
  authenticationConfiguration,
  CONTROL_PLANE_ROLE,
  EXCLUDE_FROM_LOAD_BALANCERS,
  podSecurityConfiguration,
  talosApiAccess,
} from "./policies.ts";

export function kubernetesDocuments(role: MachineRole, inputs: ConfigInputs): readonly ConfigDocument[] {
  if (inputs.contract.kubernetes === "v1alpha1") return [];
  return [...nodeDocuments(role, inputs), ...(role === "controlplane" ? controlPlaneDocuments(inputs) : [])];
}

/** What every machine has. */
function nodeDocuments(role: MachineRole, inputs: ConfigInputs): readonly ConfigDocument[] {
  const { k8s } = inputs.secrets.certs;
  const others = acceptedBeside(inputs.secrets, "k8s");
  return [
    typedDocument("KubeClusterConfig", { clusterName: inputs.clusterName, endpoint: inputs.endpoint }),
    nodeDocument(role, inputs),
    typedDocument("KubeletConfig", {
      image: kubeletImage(inputs.kubernetesVersion),
      config: {},
      defaultRuntimeSeccompProfileEnabled: true,
    }),
    typedDocument("KubeNetworkConfig", {
      dnsDomain: inputs.dnsDomain,
      podSubnets: inputs.podSubnets,
      serviceSubnets: inputs.serviceSubnets,
    }),
    typedDocument(
      "KubeAPIServerCAConfig",
      // A worker never gets the key of an authority.
      role === "controlplane"
        ? { issuingCA: { cert: k8s.crt, key: k8s.key }, acceptedCAs: unlessEmpty(others) }
        : { acceptedCAs: [k8s.crt, ...others] },
    ),
    ...(inputs.kubePrismPort > 0 ? [typedDocument("KubePrismConfig", { port: inputs.kubePrismPort })] : []),
  ];
}

function nodeDocument(role: MachineRole, inputs: ConfigInputs): ConfigDocument {
  if (role === "worker") return typedDocument("KubeNodeConfig", { nodeIP: {} });
  return typedDocument("KubeNodeConfig", {
    nodeIP: {},
    labels: { [CONTROL_PLANE_ROLE]: "", [EXCLUDE_FROM_LOAD_BALANCERS]: "" },
    taints: inputs.allowSchedulingOnControlPlanes ? undefined : { [CONTROL_PLANE_ROLE]: "NoSchedule" },
  });
}

function controlPlaneDocuments(inputs: ConfigInputs): readonly ConfigDocument[] {
  const { certs } = inputs.secrets;
  const image = (component: KubernetesComponent) => componentImage(component, inputs.kubernetesVersion);
  return [
    typedDocument("KubeAggregatorCAConfig", {
      issuingCA: { cert: certs.k8sAggregator.crt, key: certs.k8sAggregator.key },
    }),
    typedDocument("KubeAdmissionControlConfig", {
      name: "PodSecurity",
      configuration: podSecurityConfiguration,
    }),
    typedDocument("KubeAuditPolicyConfig", { configuration: auditPolicy }),
    typedDocument("KubeAuthenticationConfig", { configuration: authenticationConfiguration }),
    typedDocument("KubeAuthorizerConfig", { name: "node", type: "Node" }),
    typedDocument("KubeAuthorizerConfig", { name: "rbac", type: "RBAC" }),
    encryptionDocument(inputs.secrets.encryption.secret),
    typedDocument("KubeServiceAccountConfig", {
      issuer: { privateKey: certs.k8sServiceAccount.key, issuerURL: inputs.endpoint },
    }),
    typedDocument("KubeAPIServerConfig", {
      image: image("kube-apiserver"),
      apiPort: inputs.localApiServerPort,
      certExtraSANs: unlessEmpty(inputs.extraSans),
    }),
    typedDocument("KubeControllerManagerConfig", { image: image("kube-controller-manager") }),
    typedDocument("KubeSchedulerConfig", { image: image("kube-scheduler"), config: {} }),
    typedDocument("KubeProxyConfig", {
      enabled: inputs.kubeProxy ? undefined : false,
      image: image("kube-proxy"),
      config: {},
    }),
    ...(inputs.cni.type === "flannel"
      ? [typedDocument("KubeFlannelCNIConfig", { backendType: "vxlan", backendPort: 4789 })]
      : []),
    typedDocument("KubeCoreDNSConfig", { enabled: true }),
    ...(inputs.talosApiAccess ? [typedDocument("KubeTalosAPIAccessConfig", talosApiAccess)] : []),
    ...(inputs.cni.type === "custom"
      ? [typedDocument("KubeExternalManifestConfig", { name: "custom-cni", url: inputs.cni.url })]
      : []),
  ];
}

function encryptionDocument(secret: string): ConfigDocument {
  return typedDocument("KubeEtcdEncryptionConfig", {
    config: {
      resources: [
        // "key2" is the name under which Talos wrote its secretbox key before there was this document.
        { providers: [{ secretbox: { keys: [{ name: "key2", secret }] } }], resources: ["secrets"] },
      ],
    },
  });
}
