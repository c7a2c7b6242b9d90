// The keys of one worker, signed by its cluster's authority. What is there stays, unless it would end soon
// or was signed by an authority that is not its own any more.
import { join } from "node:path";
import { kubeconfigText } from "@gpve/domain/vcluster/kubeconfig.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { covers, dueForRenewal, isSignedBy, readCertificate } from "@gpve/kit/pki/x509.ts";
import type { ClusterKeys } from "../vcluster/cluster-keys.ts";

const YEAR_MS = 365 * 86_400_000;

export interface VnodeKeysWanted {
  /** Where they go. */
  readonly folder: string;
  readonly name: string;
  readonly address: string;
  /** Of the API server. */
  readonly server: string;
}

/** Answers whether any was made anew. */
export async function ensureVnodeKeys(
  keys: ClusterKeys,
  wanted: VnodeKeysWanted,
  clock: Clock,
): Promise<boolean> {
  const { folder, name, address, server } = wanted;
  const node = { commonName: `system:node:${name}`, organisation: "system:nodes" };
  const certificates = {
    kubelet: { ...node, usage: "client" },
    "kubelet-serving": { ...node, usage: "server", names: [name, address] },
    "kube-proxy": { commonName: "system:kube-proxy", usage: "client" },
  } as const;
  let isNew = false;
  for (const [file, certificate] of Object.entries(certificates)) {
    const path = join(folder, `${file}.crt`);
    const before = readTextFile(path);
    const names: readonly string[] = "names" in certificate ? certificate.names : [];
    if (
      before !== undefined &&
      !dueForRenewal(readCertificate(before), clock.now()) &&
      isSignedBy(before, keys.read("ca.crt")) &&
      names.every((each) => covers(before, each))
    )
      continue;
    const { certPem, keyPem } = await keys.issue(certificate, YEAR_MS);
    writeFileAtomic(join(folder, `${file}.key`), keyPem);
    writeFileAtomic(path, certPem);
    isNew = true;
  }
  writeFileAtomic(join(folder, "ca.crt"), keys.caPem);
  for (const user of ["kubelet", "kube-proxy"])
    writeFileAtomic(
      join(folder, `${user}.kubeconfig`),
      kubeconfigText(
        {
          name: "cluster",
          user,
          server,
          caPem: keys.caPem,
          certPem: readTextFile(join(folder, `${user}.crt`)) ?? "",
          keyPem: readTextFile(join(folder, `${user}.key`)) ?? "",
        },
        (plain) => Buffer.from(plain).toString("base64"),
      ),
    );
  return isNew;
}
