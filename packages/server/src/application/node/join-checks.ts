// What a machine that wants to join must be like, beside its token.
import { AppError } from "@gpve/contracts/errors.ts";

/** Certificates, tickets and leases go by clocks; more than this and nothing of it can be trusted. */
const MAX_SKEW_MS = 60_000;

/** `sentAtMs` 0 = it did not tell. */
export function requireClock(name: string, sentAtMs: number, now: number): void {
  const ahead = sentAtMs - now;
  if (sentAtMs === 0 || Math.abs(ahead) <= MAX_SKEW_MS) return;
  const seconds = Math.round(Math.abs(ahead) / 1000);
  throw new AppError(
    "request.invalid",
    `the clock of ${name} is ${seconds} s ${ahead > 0 ? "ahead of" : "behind"} this server's (more than ${MAX_SKEW_MS / 1000} s): set it right, best by NTP (timedatectl set-ntp true), and join again`,
  );
}

/** Servers share records: a further one must be able to read what is there. Patch releases go together. */
export function requireSameMinor(theirs: string, ours: string): void {
  const minor = (version: string): string => version.split(".").slice(0, 2).join(".");
  if (minor(theirs) === minor(ours)) return;
  throw new AppError(
    "request.invalid",
    `a server of version ${theirs} cannot join a cluster of version ${ours}: install ${ours} on the new machine, and upgrade all servers one after the other later`,
  );
}
