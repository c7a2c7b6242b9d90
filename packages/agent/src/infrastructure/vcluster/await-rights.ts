// An API server hears of a new binding a moment after it was made, and of all of them a moment after it is ready: until then
// it says Forbidden to whoever comes by it.
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { kubeCall, type KubeCredentials } from "./kube-api.ts";

const PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const EVERY_MS = 50;
/** Whoever waits for his kubeconfig gets it then all the same: it will be right. */
const PATIENCE_MS = 10_000;

/** Resolves when members of the group may do everything, which is what theirs is. */
export async function untilAllowed(
  group: string,
  { credentials, clock, signal }: { credentials: KubeCredentials; clock: Clock; signal: AbortSignal },
  call: typeof kubeCall = kubeCall,
): Promise<void> {
  const body = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SubjectAccessReview",
    spec: {
      user: group,
      groups: [group, "system:authenticated"],
      resourceAttributes: { verb: "*", group: "*", resource: "*" },
    },
  };
  const until = clock.monotonic() + PATIENCE_MS;
  while (clock.monotonic() < until) {
    try {
      const answer = await call(credentials, { method: "POST", path: PATH, body }, signal);
      const { status } = JSON.parse(answer.body) as { readonly status?: { readonly allowed?: boolean } };
      if (status?.allowed === true) return;
    } catch (err) {
      signal.throwIfAborted();
      ignore(err, "asked again");
    }
    await clock.sleep(EVERY_MS, signal);
  }
}
