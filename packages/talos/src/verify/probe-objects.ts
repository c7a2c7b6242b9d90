// What is put into a cluster to see whether pods reach each other: servers on every node, in the network of pods and in
// the host's, and probes that ask them. All of it is in one namespace, and goes with it.
import type { KubernetesObject } from "../kubernetes/kubernetes.ts";

export const PROBE_NAMESPACE = "gpve-verify";
export const POD_PORT = 18_998;
export const HOST_PORT = 18_999;
/** Many full packets: a path with a smaller MTU than it claims does not carry them. */
const LARGE_BYTES = 262_144;

export type ProbeNetwork = "pods" | "hosts";

export interface ProbeTarget {
  readonly node: string;
  readonly address: string;
}

export interface ProbeSpec {
  readonly name: string;
  readonly node: string;
  readonly network: ProbeNetwork;
  readonly targets: readonly ProbeTarget[];
  /** Names that must be found, with what the check calls them. */
  readonly names: readonly string[];
  readonly claim?: string;
}

export const probeNamespace: KubernetesObject = {
  apiVersion: "v1",
  kind: "Namespace",
  metadata: {
    name: PROBE_NAMESPACE,
    // Servers in the host's network are more than a baseline pod may be.
    labels: { "pod-security.kubernetes.io/enforce": "privileged" },
  },
};

const everywhere = [{ operator: "Exists" }];
const small = { requests: { cpu: "5m", memory: "8Mi" }, limits: { memory: "64Mi" } };

/** One on every node, the control planes too. */
export function serverObjects(image: string): readonly KubernetesObject[] {
  return (["pods", "hosts"] as const).map((network) => {
    const name = `server-${network}`;
    const port = network === "hosts" ? HOST_PORT : POD_PORT;
    const script = `mkdir -p /tmp/w && echo ok > /tmp/w/small && head -c ${LARGE_BYTES} /dev/zero > /tmp/w/large && exec httpd -f -p ${port} -h /tmp/w`;
    return {
      apiVersion: "apps/v1",
      kind: "DaemonSet",
      metadata: { name, namespace: PROBE_NAMESPACE },
      spec: {
        selector: { matchLabels: { "gpve.io/verify": name } },
        template: {
          metadata: { labels: { "gpve.io/verify": name } },
          spec: {
            hostNetwork: network === "hosts",
            tolerations: everywhere,
            terminationGracePeriodSeconds: 0,
            automountServiceAccountToken: false,
            containers: [
              {
                name: "server",
                image,
                command: ["sh", "-c", script],
                readinessProbe: { httpGet: { path: "/small", port }, periodSeconds: 1 },
                resources: small,
              },
            ],
          },
        },
      },
    };
  });
}

/** Its last words are what failed; nothing when all is well. */
export function probeObject(image: string, spec: ProbeSpec): KubernetesObject {
  const { name, node, network, targets, names, claim } = spec;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: PROBE_NAMESPACE, labels: { "gpve.io/verify": "probe" } },
    spec: {
      nodeName: node,
      hostNetwork: network === "hosts",
      restartPolicy: "Never",
      tolerations: everywhere,
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      containers: [
        {
          name: "probe",
          image,
          command: ["sh", "-c", probeScript(network, targets, names, claim !== undefined)],
          resources: small,
          ...(claim === undefined ? {} : { volumeMounts: [{ name: "claim", mountPath: "/claim" }] }),
        },
      ],
      ...(claim === undefined
        ? {}
        : { volumes: [{ name: "claim", persistentVolumeClaim: { claimName: claim } }] }),
    },
  };
}

/** Addresses and names are the API's own and have no characters that a shell would read. */
function probeScript(
  network: ProbeNetwork,
  targets: readonly ProbeTarget[],
  names: readonly string[],
  writes: boolean,
): string {
  const port = network === "hosts" ? HOST_PORT : POD_PORT;
  const asks = targets.flatMap(({ node, address }) => {
    const host = address.includes(":") ? `[${address}]` : address;
    // Its own time-out (-T) crashes wget of Debian's static busybox.
    const ask = (path: string, word: string): string =>
      `try ${word} ${safe(node)} timeout 20 wget -q -O /dev/null http://${safe(host)}:${port}/${path}`;
    return [ask("small", "reach"), ask("large", "large")];
  });
  const looks = names.map((each) => `try name ${safe(each)} nslookup ${safe(each)}`);
  const write = writes ? ["try write claim sh -c 'echo ok > /claim/ok'"] : [];
  return [
    'try() { what=$1; whom=$2; shift 2; for n in 1 2 3; do "$@" >/dev/null 2>&1 && return; sleep 1; done; echo "$what $whom" >> /dev/termination-log; }',
    ...asks,
    ...looks,
    ...write,
  ].join("\n");
}

const safe = (text: string): string => text.replaceAll(/[^A-Za-z0-9.:[\]_-]/g, "");

export function claimObject(storageClass: string): KubernetesObject {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "claim", namespace: PROBE_NAMESPACE },
    spec: {
      accessModes: ["ReadWriteOnce"],
      storageClassName: storageClass,
      resources: { requests: { storage: "64Mi" } },
    },
  };
}
