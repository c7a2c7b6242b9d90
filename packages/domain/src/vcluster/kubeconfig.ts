// A kubeconfig: one cluster, one user, one context. JSON is YAML, and needs no writer of its own. Each that is given out has a
// binding in the cluster, which is all that it may do there.

export const KUBECONFIG_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
/** Of the binding and of the group in the certificate; what follows is its id. */
export const KUBECONFIG_GROUP = "gpve:kubeconfig:";
export const KUBECONFIG_ID = /^[0-9a-f]{16}$/;
export const KUBECONFIG_USER = "gpve.io/user";
export const KUBECONFIG_ENDS_AT = "gpve.io/ends-at";
/** Bindings that are ours, among all that a cluster has. */
export const OUR_BINDINGS = `${KUBECONFIG_BINDINGS}?labelSelector=app.kubernetes.io%2Fmanaged-by%3Dgpve`;

export interface KubeconfigBinding {
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
}

export interface GivenKubeconfig {
  readonly id: string;
  /** Whom it was given to. */
  readonly user: string;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

/** Those that are good still, by when they end. Whoever administers the cluster can write such bindings too. */
export function givenKubeconfigs(bindings: readonly KubeconfigBinding[], now: number): GivenKubeconfig[] {
  return bindings
    .filter(({ metadata: { name } }) => name.startsWith(KUBECONFIG_GROUP))
    .map(({ metadata: { name, annotations = {} } }) => ({
      id: name.slice(KUBECONFIG_GROUP.length),
      user: annotations[KUBECONFIG_USER] ?? "",
      expiresAt: Date.parse(annotations[KUBECONFIG_ENDS_AT] ?? ""),
    }))
    .filter(({ id, expiresAt }) => KUBECONFIG_ID.test(id) && expiresAt >= now)
    .toSorted((a, b) => a.expiresAt - b.expiresAt);
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
