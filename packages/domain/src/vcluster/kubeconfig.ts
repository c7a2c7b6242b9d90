// A kubeconfig: one cluster, one user, one context. JSON is YAML, and needs no writer of its own. Each that is given out has a
// binding in the cluster, which is all that it may do there.
import { given } from "@gpve/contracts/given.ts";

export const KUBECONFIG_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
/** Of the binding and of the group in the certificate; what follows is its id. */
export const KUBECONFIG_GROUP = "gpve:kubeconfig:";
export const KUBECONFIG_ID = /^[0-9a-f]{16}$/;
export const KUBECONFIG_USER = "gpve.io/user";
export const KUBECONFIG_ENDS_AT = "gpve.io/ends-at";
/** No kubeconfig is asked for that is good longer. */
export const LONGEST_MS = 8784 * 3_600_000;

/** Whoever administers the cluster can write all of it but its name and when it was made. */
export interface KubeconfigBinding {
  readonly metadata: {
    readonly name: string;
    readonly creationTimestamp?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

export interface GivenKubeconfig {
  readonly id: string;
  /** Whom it was given to. */
  readonly user: string;
  /** Milliseconds since 1970; absent: the binding does not tell it any more. */
  readonly expiresAt?: number;
}

/** Those that may be good still, by when they end; known by their names, which no label or annotation hides. */
export function givenKubeconfigs(bindings: readonly KubeconfigBinding[], now: number): GivenKubeconfig[] {
  return bindings
    .filter((binding) => KUBECONFIG_ID.test(idOf(binding)) && !hasEnded(binding, now))
    .map((binding) => ({
      id: idOf(binding),
      user: binding.metadata.annotations?.[KUBECONFIG_USER] ?? "",
      ...given({ expiresAt: saidEnd(binding) }),
    }))
    .toSorted((a, b) => (a.expiresAt ?? NEVER) - (b.expiresAt ?? NEVER));
}

/** Those whose certificates are good no more. */
export function endedKubeconfigs<B extends KubeconfigBinding>(bindings: readonly B[], now: number): B[] {
  return bindings.filter(
    (binding) => binding.metadata.name.startsWith(KUBECONFIG_GROUP) && hasEnded(binding, now),
  );
}

const NEVER = Number.MAX_SAFE_INTEGER;

function idOf({ metadata: { name } }: KubeconfigBinding): string {
  return name.startsWith(KUBECONFIG_GROUP) ? name.slice(KUBECONFIG_GROUP.length) : "";
}

function hasEnded(binding: KubeconfigBinding, now: number): boolean {
  const madeAt = Date.parse(binding.metadata.creationTimestamp ?? "");
  return (saidEnd(binding) ?? NEVER) < now || madeAt + LONGEST_MS < now;
}

function saidEnd({ metadata: { annotations } }: KubeconfigBinding): number | undefined {
  const at = Date.parse(annotations?.[KUBECONFIG_ENDS_AT] ?? "");
  return Number.isNaN(at) ? undefined : at;
}

export interface KubeconfigParts {
  /** What the cluster and the context are called. */
  readonly name: string;
  readonly user: string;
  readonly server: string;
  /** What its certificate is for, where that is not what the server is called. */
  readonly serverName?: string;
  readonly caPem: string;
  readonly certPem: string;
  readonly keyPem: string;
}

export function kubeconfigText(parts: KubeconfigParts, base64: (text: string) => string): string {
  const { name, user, server, serverName, caPem, certPem, keyPem } = parts;
  const tls = serverName === undefined ? {} : { "tls-server-name": serverName };
  return `${JSON.stringify(
    {
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name, cluster: { server, ...tls, "certificate-authority-data": base64(caPem) } }],
      users: [
        {
          name: user,
          user: { "client-certificate-data": base64(certPem), "client-key-data": base64(keyPem) },
        },
      ],
      contexts: [{ name, context: { cluster: name, user } }],
      "current-context": name,
    },
    undefined,
    2,
  )}\n`;
}
