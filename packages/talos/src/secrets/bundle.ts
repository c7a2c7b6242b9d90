// The secrets of a cluster, in memory. Certificates and keys are PEM text; the file form is in bundle-file.ts.

export interface CertificateAndKey {
  readonly crt: string;
  readonly key: string;
}

/** Authorities that can be replaced while the cluster runs. */
export type AuthorityName = "os" | "k8s";

export type RotationPhase = "accept" | "issue" | "remove";

/** The other authority of each one that is being replaced: the new one in the first phase, then the old one. */
export interface AuthorityRotation {
  readonly phase: RotationPhase;
  readonly os?: CertificateAndKey;
  readonly k8s?: CertificateAndKey;
}

export interface SecretsBundle {
  readonly cluster: { readonly id: string; readonly secret: string };
  readonly bootstrapToken: string;
  /** How Kubernetes' secrets are encrypted in etcd. Clusters born before Talos 1.3 use AES-CBC. */
  readonly encryption: { readonly kind: "secretbox" | "aescbc"; readonly secret: string };
  readonly trustdToken: string;
  readonly certs: {
    readonly etcd: CertificateAndKey;
    readonly k8s: CertificateAndKey;
    readonly k8sAggregator: CertificateAndKey;
    readonly k8sServiceAccount: { readonly key: string };
    readonly os: CertificateAndKey;
  };
  /** undefined: nothing is being replaced. */
  readonly rotation?: AuthorityRotation;
}
