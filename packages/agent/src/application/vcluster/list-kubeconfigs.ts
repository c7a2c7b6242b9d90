// Which kubeconfigs of a cluster are good: the cluster itself keeps that.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import {
  type GivenKubeconfig,
  givenKubeconfigs,
  KUBECONFIG_BINDINGS,
  type KubeconfigBinding,
} from "@gpve/domain/vcluster/kubeconfig.ts";
import { calledOf, type KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export async function listKubeconfigs(
  { api, clock }: { readonly api: ClusterApi; readonly clock: Pick<Clock, "now"> },
  cluster: KeptCluster,
  signal: AbortSignal,
): Promise<GivenKubeconfig[]> {
  const silent = (why: string, cause?: unknown): AppError =>
    new AppError(
      "internal.error",
      `virtual cluster ${calledOf(cluster)} does not tell its kubeconfigs: ${why}`,
      { cause },
    );
  const { status, body } = await api(cluster, { method: "GET", path: KUBECONFIG_BINDINGS }, signal).catch(
    (cause: unknown) => {
      throw silent(messageOf(cause), cause);
    },
  );
  if (status !== 200) throw silent(`it answered ${status}`);
  const { items = [] } = (body ?? {}) as { readonly items?: readonly KubeconfigBinding[] };
  return givenKubeconfigs(items, clock.now());
}
