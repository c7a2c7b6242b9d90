// Waiting for the API of a virtual cluster that was just started.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { kubeCall, type KubeCredentials } from "./kube-api.ts";

export interface Awaited {
  readonly cluster: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly credentials: () => Promise<KubeCredentials>;
}

const READY_MS = 300_000;

/** `ended`: what its API server said last, when it has ended. `speaks`: called when it answers, if only that it is not ready. */
export async function untilReady({
  cluster,
  clock,
  signal,
  credentials,
  ended,
  speaks,
}: Awaited & {
  readonly ended: () => string | undefined;
  readonly speaks?: () => void;
}): Promise<void> {
  const until = clock.monotonic() + READY_MS;
  let last = "no answer";
  for (;;) {
    const words = ended();
    if (words !== undefined)
      throw new AppError("internal.error", `kube-apiserver of ${cluster} ended: ${words.trim().slice(-500)}`);
    try {
      const answer = await kubeCall(await credentials(), { method: "GET", path: "/readyz" }, signal);
      speaks?.();
      if (answer.status === 200) return;
      last = `${answer.status} ${answer.body.slice(0, 200)}`;
    } catch (err) {
      if (signal.aborted) throw err;
      last = messageOf(err);
    }
    if (clock.monotonic() > until)
      throw new AppError(
        "request.timeout",
        `kube-apiserver of ${cluster} is not ready after ${READY_MS / 1000} s: ${last}`,
      );
    await clock.sleep(50, signal);
  }
}

/** The account that the controllers of a new cluster make: when it is there, pods can be made. */
export async function untilFurnished({ cluster, clock, signal, credentials }: Awaited): Promise<void> {
  const path = "/api/v1/namespaces/default/serviceaccounts/default";
  const until = clock.monotonic() + READY_MS;
  for (;;) {
    const { status } = await kubeCall(await credentials(), { method: "GET", path }, signal).catch(
      (err: unknown) => {
        ignore(err, "asked again");
        return { status: 0 };
      },
    );
    if (status === 200) return;
    if (clock.monotonic() > until)
      throw new AppError(
        "request.timeout",
        `the controllers of ${cluster} did not make the account 'default' within ${READY_MS / 1000} s`,
      );
    await clock.sleep(50, signal);
  }
}
