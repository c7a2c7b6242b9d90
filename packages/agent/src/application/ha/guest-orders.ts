// What the local manager has done with guests: operations of this node, begun in one round and asked about in the next.
import { randomUUID } from "node:crypto";
import { messageOf } from "@gpve/contracts/errors.ts";
import { vmidOfSid } from "@gpve/domain/ha/collections.ts";
import type { GuestActions, ActionOutcome } from "@gpve/domain/ha/environment.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OrderedGuests } from "../guest/all-guests.ts";

export interface GuestOrdersDeps {
  readonly engine: OperationEngine;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whose configuration lies on this node. */
  readonly isHere: (vmid: number) => boolean;
  readonly kindOf: (vmid: number) => OrderedGuests;
  /** Why its disks cannot be reached from there; undefined = they can. */
  readonly notMovable: (vmid: number, target: string) => string | undefined;
}

interface Work {
  readonly what: "start" | "stop" | "kill" | "move";
  outcome: ActionOutcome;
  endedAt: number;
}

const STOP_SECONDS = 60;
/** Longer than a round: nobody asks for the end of an order that was replaced. */
const UNASKED_MS = 5_000;

export class GuestOrders implements GuestActions {
  readonly #deps: GuestOrdersDeps;
  readonly #work = new Map<string, Work>();
  readonly #reasons = new Map<string, string>();

  constructor(deps: GuestOrdersDeps) {
    this.#deps = deps;
  }

  isHere = (sid: string): boolean => this.#deps.isHere(vmidOfSid(sid));

  isRunning = (sid: string): boolean => {
    const running = this.#deps.kindOf(vmidOfSid(sid)).isRunning(vmidOfSid(sid));
    // What has been begun is not over before its end was asked for.
    const work = this.#current(sid);
    if (work !== undefined) return work.what !== "start";
    return running;
  };

  start = (sid: string): ActionOutcome => {
    const { operations } = this.#deps.kindOf(vmidOfSid(sid));
    return this.#follow(sid, "start", operations.start, {});
  };

  stop = (sid: string, timeoutS: number | undefined): ActionOutcome => {
    const { operations } = this.#deps.kindOf(vmidOfSid(sid));
    const known = this.#current(sid)?.what;
    if (timeoutS === 0 && known === "stop") this.#work.delete(sid);
    if (timeoutS === 0 || known === "kill") return this.#follow(sid, "kill", operations.stop, {});
    const args = { timeoutSeconds: timeoutS ?? STOP_SECONDS, forceStop: true };
    return this.#follow(sid, "stop", operations.shutdown, args);
  };

  canMove = (sid: string, target: string): boolean => {
    const why = this.#deps.notMovable(vmidOfSid(sid), target);
    if (why === undefined) return true;
    this.#deps.log.warn({ sid, target }, `${sid} cannot go to ${target}: ${why}`);
    this.#reasons.set(sid, why);
    return false;
  };

  /** Live, by the note that the manager has left for its order. Stopped is ready to go: the manager hands it over. */
  move = (sid: string, target: string, order: string): ActionOutcome => {
    const known = this.#current(sid)?.what;
    if (known === undefined && !this.isRunning(sid)) return true;
    const { move } = this.#deps.kindOf(vmidOfSid(sid)).operations;
    if (move === undefined) return this.stop(sid, undefined);
    return this.#follow(sid, "move", move, { moveId: order, target, online: true, withLocalDisks: false });
  };

  whyNot = (sid: string): string | undefined => this.#reasons.get(sid);

  #current(sid: string): Work | undefined {
    const work = this.#work.get(sid);
    if (work === undefined || work.outcome === "pending") return work;
    if (this.#deps.clock.monotonic() - work.endedAt < UNASKED_MS) return work;
    this.#work.delete(sid);
    return undefined;
  }

  #follow(sid: string, what: Work["what"], type: string, args: object): ActionOutcome {
    const known = this.#current(sid);
    if (known?.what === what) {
      if (known.outcome !== "pending") this.#work.delete(sid);
      return known.outcome;
    }
    // Another order is still being carried out: it ends first.
    if (known?.outcome === "pending") return "pending";
    const work: Work = { what, outcome: "pending", endedAt: 0 };
    this.#work.set(sid, work);
    const isCurrent = (): boolean => this.#work.get(sid) === work;
    void this.#run(sid, type, args, isCurrent).then((done) => {
      work.outcome = done;
      work.endedAt = this.#deps.clock.monotonic();
    });
    return "pending";
  }

  async #run(sid: string, type: string, args: object, isCurrent: () => boolean): Promise<boolean> {
    const { engine, log } = this.#deps;
    const vmid = vmidOfSid(sid);
    this.#reasons.delete(sid);
    try {
      const { operation } = await engine.submit({
        type,
        resources: [`vm/${vmid}`],
        args: { vmid, ...args },
        actor: "root@pam",
        subject: String(vmid),
        requestId: randomUUID(),
      });
      const ended = await engine.wait(operation.id);
      if (ended.state === "done") return true;
      // Another has taken its place and ended it.
      if (!isCurrent()) return false;
      const why = ended.error ?? ended.state;
      this.#reasons.set(sid, why);
      log.warn({ sid, operation: type }, `${type} of ${sid} failed: ${why}`);
    } catch (err) {
      this.#reasons.set(sid, messageOf(err));
      log.warn({ sid, operation: type, err: messageOf(err) }, `${type} of ${sid} failed`);
    }
    return false;
  }
}
