// A bundle for tests: real authorities, but an EC key for service accounts, as clusters before Talos 1.7 have it; the
// RSA key of a new bundle takes seconds to make.
import { createAuthority } from "../secrets/authority.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";

export async function testBundle(now = Date.UTC(2026, 0, 1)): Promise<SecretsBundle> {
  const ecdsa = (organization: string | undefined) =>
    createAuthority({ organization, keyKind: "ecdsa", now });
  const [etcd, k8s, k8sAggregator, serviceAccount] = await Promise.all([
    ecdsa("etcd"),
    ecdsa("kubernetes"),
    ecdsa(undefined),
    ecdsa("unused"),
  ]);
  return {
    cluster: { id: Buffer.alloc(32, 1).toString("base64"), secret: Buffer.alloc(32, 2).toString("base64") },
    bootstrapToken: "abcdef.0123456789abcdef",
    encryption: { kind: "secretbox", secret: Buffer.alloc(32, 3).toString("base64") },
    trustdToken: "fedcba.fedcba9876543210",
    certs: {
      etcd,
      k8s,
      k8sAggregator,
      k8sServiceAccount: { key: serviceAccount.key },
      os: await createAuthority({ organization: "talos", keyKind: "ed25519", now }),
    },
  };
}
