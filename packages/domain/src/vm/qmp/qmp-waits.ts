// Commands that only begin something, together with the wait for its end.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { Qmp } from "./qmp.ts";
import type { CallOptions } from "../../guest/guest-processes.ts";
import { isQmpRefusal, qmpRefused } from "./qmp-errors.ts";
import type { JobInfo, JobStatus } from "./qmp-types.ts";

/** Names of the devices the VM has by id. */
export async function deviceIds(qmp: Qmp): Promise<ReadonlySet<string>> {
  const children = await qmp.execute("qom-list", { path: "/machine/peripheral" });
  return new Set(children.filter(({ type }) => type.startsWith("child<")).map(({ name }) => name));
}

/**
 * Unplugs a device and waits until the guest has let go of it. A device that is not there counts as unplugged.
 * A guest that does not react leaves the request pending in QEMU and gives `request.timeout` here.
 */
export async function unplugDevice(qmp: Qmp, id: string, options: CallOptions = {}): Promise<void> {
  const gone = qmp.events.waitFor(
    `${qmp.label} unplugging device '${id}'`,
    (event) => {
      if (event.data["device"] !== id) return undefined;
      if (event.name === "DEVICE_DELETED") return true;
      if (event.name === "DEVICE_UNPLUG_GUEST_ERROR") throw stillBusy(id);
      return undefined;
    },
    { ...options, afterGap: async () => ((await deviceIds(qmp)).has(id) ? undefined : true) },
  );
  const result = gone.result.catch((err: unknown) => ({ err }));
  try {
    await qmp.execute("device_del", { id }, options);
  } catch (err) {
    gone.cancel();
    await result;
    if (isQmpRefusal(err, "DeviceNotFound")) return;
    throw err;
  }
  const outcome = await result;
  if (typeof outcome !== "object") return;
  throw isAppError(outcome.err, "request.timeout") ? stillBusy(id, outcome.err) : outcome.err;
}

/** PVE's words: clients that know them try again. */
function stillBusy(id: string, cause?: unknown): AppError {
  const message = `error on hot-unplugging device '${id}' - still busy in guest?`;
  return new AppError("request.timeout", message, cause === undefined ? {} : { cause });
}

const JOB_POLL_MS = 1_000;

export interface JobWait extends CallOptions {
  /** Called with every look at the job. */
  readonly onProgress?: (job: JobInfo) => void;
}

/**
 * Waits until a job has one of the states. A job that concluded with an error, or vanished, is a failure.
 * Needs `auto-dismiss: false`, otherwise the job may be gone before anyone saw how it ended.
 */
export async function waitForJob(
  qmp: Qmp,
  id: string,
  states: readonly JobStatus[],
  options: JobWait = {},
): Promise<JobInfo> {
  const { timeoutMs = Number.POSITIVE_INFINITY, signal } = options;
  const deadline = qmp.clock.monotonic() + timeoutMs;
  let nudge: () => void = () => undefined;
  const stop = qmp.events.listen({
    onEvent: (event) => {
      if (event.data["id"] === id || event.data["device"] === id) nudge();
    },
    onReset: () => nudge(),
    onEnd: () => nudge(),
  });
  try {
    for (;;) {
      const changed = new Promise<void>((resolve) => {
        nudge = resolve;
      });
      const job = (await qmp.execute("query-jobs", undefined, signal === undefined ? {} : { signal })).find(
        (known) => known.id === id,
      );
      if (job === undefined) throw qmpRefused(qmp.label, "query-jobs", "GenericError", `job '${id}' is gone`);
      options.onProgress?.(job);
      if (job.error !== undefined) throw qmpRefused(qmp.label, `job ${id}`, "GenericError", job.error);
      if (states.includes(job.status)) return job;
      if (job.status === "concluded" || job.status === "null")
        throw qmpRefused(qmp.label, `job ${id}`, "GenericError", `it ended without reaching ${states[0]}`);
      if (qmp.clock.monotonic() >= deadline)
        throw new AppError("request.timeout", `${qmp.label} job '${id}' did not finish in ${timeoutMs} ms`);
      const pause = new AbortController();
      const forward = (): void => pause.abort(signal?.reason);
      signal?.addEventListener("abort", forward, { once: true });
      try {
        await Promise.race([changed, qmp.clock.sleep(JOB_POLL_MS, pause.signal).catch(() => undefined)]);
      } finally {
        signal?.removeEventListener("abort", forward);
        pause.abort(new AppError("operation.cancelled", "no longer needed"));
      }
    }
  } finally {
    stop();
  }
}
