// Waiting for a PVE task: poll its status, pass on new log lines, end with its outcome.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { PveClient } from "./pve-client.ts";
import { pveRows } from "./pve-client.ts";
import { isObject } from "./response-error.ts";
import type { ClientClock } from "./transport.ts";

export interface TaskOutcome {
  readonly upid: string;
  /** OK, `WARNINGS: n`, or the error's text. */
  readonly exitstatus: string;
  readonly ok: boolean;
}

export interface WaitTaskOptions {
  readonly onLog?: (line: string) => void;
  readonly signal?: AbortSignal;
  /** Give up waiting (the task goes on) after this long. */
  readonly timeoutMs?: number;
  readonly pollMs?: number;
}

export function isUpid(value: unknown): value is string {
  return typeof value === "string" && /^UPID:[^:]+:/.test(value);
}

export function upidNode(upid: string): string {
  const [tag, node] = upid.split(":");
  if (tag !== "UPID" || node === undefined || node === "") {
    throw new AppError("request.invalid", `"${upid}" is not a UPID`, {
      errors: { upid: "unable to parse worker upid" },
    });
  }
  return node;
}

const LOG_PAGE = 1000;
/** The work goes on while nobody answers: a server is started anew, or too busy to be asked. */
const PATIENCE_MS = 300_000;

export async function waitTask(
  deps: { pve: PveClient; clock: ClientClock },
  upid: string,
  options: WaitTaskOptions = {},
): Promise<TaskOutcome> {
  const { pve, clock } = deps;
  const node = upidNode(upid);
  const call = options.signal === undefined ? {} : { signal: options.signal };
  const deadline = options.timeoutMs === undefined ? undefined : clock.now() + options.timeoutMs;
  let seen = 0;
  const drainLog = async (): Promise<void> => {
    const onLog = options.onLog;
    if (onLog === undefined) return;
    for (;;) {
      const params = { node, upid, start: seen, limit: LOG_PAGE };
      const answer = await pve.call("GET", "/nodes/{node}/tasks/{upid}/log", params, call);
      const rows = pveRows(answer.data, "the task log").filter((row) => Number(row["n"]) > seen);
      // An empty log is shown by PVE as one row "no content".
      const lines = rows.length === 1 && rows[0]?.["t"] === "no content" ? [] : rows;
      for (const row of lines) onLog(String(row["t"]));
      seen += lines.length;
      if (lines.length < LOG_PAGE) return;
    }
  };
  const look = async (): Promise<TaskOutcome | undefined> => {
    // The status is read before the log, so that the last lines are never missed.
    const status = await pve.get("/nodes/{node}/tasks/{upid}/status", { node, upid }, call);
    await drainLog();
    if (!isObject(status) || status["status"] !== "stopped") return undefined;
    const exitstatus = typeof status["exitstatus"] === "string" ? status["exitstatus"] : "unexpected status";
    return { upid, exitstatus, ok: exitstatus === "OK" || exitstatus.startsWith("WARNINGS") };
  };
  let answeredAt = clock.now();
  for (let poll = 0; ; poll += 1) {
    try {
      const outcome = await look();
      if (outcome !== undefined) return outcome;
      answeredAt = clock.now();
    } catch (err) {
      if (!isSilence(err)) throw err;
      if (clock.now() - answeredAt >= PATIENCE_MS) throw goesOn(err, upid);
    }
    if (deadline !== undefined && clock.now() >= deadline) {
      throw new AppError("request.timeout", `task ${upid} is still running`, { data: { upid } });
    }
    // Quick at first: most tasks are short.
    await clock.sleep(options.pollMs ?? Math.min(100 * 1.5 ** poll, 1000), options.signal);
  }
}

function isSilence(err: unknown): err is AppError {
  return isAppError(err) && (err.kind === "unavailable" || err.kind === "timeout");
}

function goesOn(err: AppError, upid: string): AppError {
  const next = `The work goes on without being watched. Its log: gpvectl task follow ${upid}`;
  return new AppError(err.code, err.message, { cause: err, data: { ...err.data, upid, next } });
}

/** Like waitTask, but a failed task is an error. */
export async function requireTask(
  deps: { pve: PveClient; clock: ClientClock },
  upid: string,
  options: WaitTaskOptions = {},
): Promise<TaskOutcome> {
  const outcome = await waitTask(deps, upid, options);
  if (outcome.ok) return outcome;
  throw new AppError("operation.failed", outcome.exitstatus, { data: { upid } });
}
