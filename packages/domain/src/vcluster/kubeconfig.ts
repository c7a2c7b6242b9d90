// A kubeconfig: one cluster, one user, one context. JSON is YAML, and needs no writer of its own.

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
