// Who is at work on a cluster, in words that others read and this machine can judge: its own processes it knows to be
// gone, so that a killed apply keeps nobody from going on.
import { hostname, userInfo } from "node:os";
import { bootId, identify, isAlive } from "@gpve/kit/process-identity.ts";

const HOLDER = /, process (\d+) \(boot ([0-9a-f]{8}), start (\d+)\)$/;

const boot = (): string => bootId().slice(0, 8);

export function operatorName(): string {
  const started = identify(process.pid)?.startTime ?? "0";
  return `${userInfo().username}@${hostname()}, process ${process.pid} (boot ${boot()}, start ${started})`;
}

/** A process of this machine that has ended. Of others nothing is known. */
export function isGone(holder: string): boolean {
  const [, pid, of, startTime = ""] = HOLDER.exec(holder) ?? [];
  return of === boot() && !isAlive({ bootId: bootId(), pid: Number(pid), startTime });
}
