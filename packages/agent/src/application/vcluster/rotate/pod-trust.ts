// Whom pods and other API servers of a cluster trust is in objects of it, which the control plane writes.
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { StepContext } from "@gpve/kit/operation/definition.ts";
import { expectStatus } from "../../vnode/register-node.ts";

const LOOK_MS = 500;
const MOST_MS = 60_000;
const ROOTS = "/api/v1/configmaps?fieldSelector=metadata.name%3Dkube-root-ca.crt";
const DNS = "/apis/apps/v1/namespaces/kube-system/deployments/coredns";
/** What API servers of a tenant trust. The control plane adds to it and takes nothing out; where it is gone, it is made anew. */
const FORMER_TRUST = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

/** Until pods that start now trust these authorities; those of ours that read them only then are started again. */
export async function untilPodsTrust(
  api: ClusterApi,
  cluster: KeptCluster,
  {
    pem,
    hasWorkers,
    ctx,
  }: {
    readonly pem: string;
    readonly hasWorkers: boolean;
    readonly ctx: Pick<StepContext, "clock" | "signal" | "log" | "warn">;
  },
): Promise<void> {
  const { clock, signal, log, warn } = ctx;
  const until = clock.monotonic() + MOST_MS;
  for (;;) {
    const { body } = await api(cluster, { method: "GET", path: ROOTS }, signal);
    const { items = [] } = (body ?? {}) as {
      items?: readonly { data?: Record<string, string>; metadata?: { namespace?: string } }[];
    };
    const behind = items.filter(({ data }) => data?.["ca.crt"] !== pem);
    if (items.length > 0 && behind.length === 0) break;
    if (clock.monotonic() > until) {
      const where = behind.map(({ metadata }) => metadata?.namespace ?? "").join(", ") || "every namespace";
      warn(`pods in ${where} are not told of the new authority yet (ConfigMap kube-root-ca.crt)`);
      break;
    }
    await clock.sleep(LOOK_MS, signal);
  }
  log(
    "pods that start from now on trust both; those that read it only at their start are to be started again",
  );
  if (!hasWorkers) return;
  const annotations = { "gpve.io/authorities-at": String(clock.now()) };
  const body = { spec: { template: { metadata: { annotations } } } };
  await expectStatus(api, cluster, { method: "PATCH", path: DNS, body }, [200, 404], signal);
}

export async function clearFormerTrust(
  api: ClusterApi,
  cluster: KeptCluster,
  signal: AbortSignal,
): Promise<void> {
  await expectStatus(api, cluster, { method: "DELETE", path: FORMER_TRUST }, [200, 404], signal);
}
