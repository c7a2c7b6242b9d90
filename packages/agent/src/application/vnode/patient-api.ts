// The API of a cluster for work that nobody watches call by call: an answer that a moment later would be another one is
// asked for again, so that a busy node or an API server that restarts does not end an upgrade or a cluster's life.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { ClusterApi, KubeReply } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";

const PATIENCE_MS = 90_000;
const LOOK_MS = 500;
/** What an API server says that has lost its store for a moment, or begins or ends. */
const PASSING = new Set([500, 502, 503, 504]);

/** Every call that workers and upgrades make can be made twice: what is there is as good as what was made. */
export function patientApi(api: ClusterApi, clock: Clock, patienceMs = PATIENCE_MS): ClusterApi {
  return async (cluster, request, signal) => {
    const until = clock.monotonic() + patienceMs;
    for (;;) {
      const said = await api(cluster, request, signal).catch((cause: unknown) => ({ cause }));
      const isLast = signal.aborted || clock.monotonic() >= until;
      if (isReply(said)) {
        if (isLast || !PASSING.has(said.status)) return said;
      } else if (isLast)
        throw new Error(
          `virtual cluster ${cluster.name} did not answer ${request.method} ${request.path} for ${patienceMs / 1000} s: ${messageOf(said.cause)}`,
          { cause: said.cause },
        );
      await clock.sleep(LOOK_MS, signal);
    }
  };
}

function isReply(said: KubeReply | { readonly cause: unknown }): said is KubeReply {
  return "status" in said;
}
