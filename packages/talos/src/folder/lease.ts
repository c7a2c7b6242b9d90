// One operator at a time: here by a file that names the process, elsewhere by a mark on the first control plane.
import { given } from "@gpve/contracts/given.ts";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { acquireProcessLock, type ProcessLock } from "@gpve/kit/process-lock.ts";
import type { Driver, GuestPlace } from "../driver/driver.ts";
import { lockPath } from "./lock-file.ts";

/** A mark that was not renewed for so long is nobody's. */
const MARK_MS = 15 * 60_000;
const RENEW_MS = 60_000;
const MARK = /^gpve-talos: (.+) since (\S+)$/m;

/** Fails (resource.busy) while another process here holds it. */
export function takeLease(folder: string, cluster: string): ProcessLock {
  const path = join(dirname(lockPath(folder, cluster)), "lease");
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  try {
    return acquireProcessLock(path);
  } catch (err) {
    if (!isAppError(err, "resource.busy")) throw err;
    throw busy(`process ${String(err.data["pid"])} on this machine is changing ${cluster}`);
  }
}

export interface MarkRequest {
  readonly driver: Driver;
  readonly place: GuestPlace;
  /** "ann@laptop, process 12" */
  readonly holder: string;
  /** Known to be at work no more, as a process of this machine that was killed is. */
  readonly isGone: (holder: string) => boolean;
  readonly now: () => number;
  readonly takeOver: boolean;
}

/** Where others see it: in the notes of a guest, which everybody who may change the cluster can read. */
export class OperatorMark {
  readonly #request: MarkRequest;
  #written = 0;

  private constructor(request: MarkRequest) {
    this.#request = request;
  }

  /** Fails (resource.busy) while another one is fresh. */
  static async take(request: MarkRequest): Promise<OperatorMark> {
    const { driver, place } = request;
    const config = await driver.guestConfig(place);
    refuseMarked(config["description"] ?? "", request);
    const mark = new OperatorMark(request);
    await mark.#write(config["description"] ?? "", config["digest"]);
    return mark;
  }

  /** Called often; written once a minute. */
  async renew(): Promise<void> {
    const { driver, place, now, holder } = this.#request;
    if (now() - this.#written < RENEW_MS) return;
    const { description = "" } = await driver.guestConfig(place);
    const other = MARK.exec(description)?.[1];
    if (other !== undefined && other !== holder) throw busy(`${other} took over`);
    await this.#write(description);
  }

  async release(): Promise<void> {
    const { driver, place, holder } = this.#request;
    const { description = "" } = await driver.guestConfig(place);
    // Somebody who took over has his own there.
    if (MARK.exec(description)?.[1] !== holder) return;
    await driver.changeGuest(place, { description: without(description) });
  }

  async #write(description: string, digest?: string): Promise<void> {
    const { driver, place, holder, now } = this.#request;
    this.#written = now();
    const line = `gpve-talos: ${holder} since ${new Date(this.#written).toISOString()}`;
    const text = [without(description), line].filter((part) => part !== "").join("\n");
    // Who read the same and writes too is refused by the digest.
    await driver.changeGuest(place, { description: text, ...given({ digest }) });
  }
}

/** Refuses (resource.busy) while notes have somebody else's mark that is fresh. */
export function refuseMarked(
  description: string,
  { holder, isGone, now, takeOver }: Pick<MarkRequest, "holder" | "isGone" | "now" | "takeOver">,
): void {
  const [, other, since = ""] = MARK.exec(description) ?? [];
  const isFresh = now() - Date.parse(since) < MARK_MS;
  if (other !== undefined && other !== holder && isFresh && !isGone(other) && !takeOver)
    throw busy(`${other}, since ${since}`);
}

const without = (description: string): string => description.replace(MARK, "").trim();

function busy(who: string): AppError {
  return new AppError("resource.busy", `somebody else is at work: ${who}`, {
    data: { finding: "operator-busy" },
  });
}
