// What the helpers of a VM have in common: processes of their own that QEMU reaches by a unix socket.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { FileFacts } from "@gpve/domain/guest/file-facts.ts";
import type { GuestProcess, GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface HelperPorts {
  readonly processes: GuestProcesses;
  readonly files: FileFacts;
  readonly clock: Clock;
}

const SOCKET_PATIENCE_MS = 10_000;
const LOOK_EVERY_MS = 20;

export async function stopHelper({ processes }: Pick<HelperPorts, "processes">, id: string): Promise<void> {
  const process = processes.get(id);
  if (process !== undefined && !process.hasExited) await process.stop();
}

/** Resolves when it listens, or with what it said instead; then it does not run any more. */
export async function whyNotListening(
  { files, clock }: HelperPorts,
  process: GuestProcess,
  socket: string,
  patienceMs = SOCKET_PATIENCE_MS,
): Promise<string | undefined> {
  for (let waited = 0; waited < patienceMs; waited += LOOK_EVERY_MS) {
    if (process.hasExited) return (await process.exited).lastWords.trim();
    if (files.exists(socket)) return undefined;
    await clock.sleep(LOOK_EVERY_MS);
  }
  await process.kill();
  return "it did not open its socket";
}

export async function untilListening(
  host: HelperPorts,
  process: GuestProcess,
  socket: string,
  patienceMs?: number,
): Promise<void> {
  const why = await whyNotListening(host, process, socket, patienceMs);
  if (why !== undefined) throw helperFailed(process, why);
}

/**
 * What is to be said where it was needed and failed; undefined = it runs, or ended in good order: a helper ends when QEMU
 * hangs up, and then QEMU's own words say why.
 */
export async function whyFailed(
  process: Pick<GuestProcess, "label" | "hasExited" | "exited">,
  cause: unknown,
): Promise<AppError | undefined> {
  if (!process.hasExited) return undefined;
  const { cause: end, exitCode, signal, outOfMemory, lastWords } = await process.exited;
  if (end !== "crashed" && end !== "killed") return undefined;
  const how = [
    end,
    ...(exitCode === undefined ? [] : [`exit code ${exitCode}`]),
    ...(signal === undefined ? [] : [`signal ${signal}`]),
    ...(outOfMemory ? ["out of memory"] : []),
  ].join(", ");
  return startFailed(
    `the ${process.label} ended while QEMU started (${how}): ${lastWords.trim() || "it said nothing"}`,
    cause,
  );
}

export function helperFailed({ label }: Pick<GuestProcess, "label">, why: string): AppError {
  return startFailed(`failed to start the ${label}: ${why}`);
}

export function startFailed(message: string, cause?: unknown): AppError {
  return new AppError("guest.start_failed", message, { pveStatus: 500, ...given({ cause }) });
}
