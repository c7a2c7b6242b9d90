// The orders of the manager for services on this node, and what came of each.
import type { HaEnvironment, ActionOutcome } from "./environment.ts";
import type { ExitCode, LocalStatus, ServiceStatus } from "./model.ts";

const MOVE = "move";

export class LocalWork {
  readonly #env: HaEnvironment;
  readonly #startFailures = new Map<string, number>();
  /** Errors are said once per order. */
  readonly #said = new Set<string>();
  /** What is under way for whom, so that it is said once. */
  readonly #underWay = new Map<string, string>();
  #results: LocalStatus["results"] = {};

  constructor(env: HaEnvironment) {
    this.#env = env;
  }

  results(): LocalStatus["results"] {
    return { ...this.#results };
  }

  carryOut(
    services: Readonly<Record<string, ServiceStatus>>,
    isMeant: (service: ServiceStatus) => boolean = () => true,
  ): void {
    const known = new Set(Object.values(services).map(({ uid }) => uid));
    this.#results = Object.fromEntries(Object.entries(this.#results).filter(([uid]) => known.has(uid)));
    for (const [sid, service] of Object.entries(services).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      if (service.node !== this.#env.node || !isMeant(service)) continue;
      const last = this.#results[service.uid]?.exit;
      // What runs or stands still is looked after again and again; everything else is done once.
      const kept = service.state === "stopped" || (service.state === "started" && last !== "error");
      if (last !== undefined && (!kept || last === "wrongNode")) continue;
      const exit = this.#do(sid, service);
      if (exit !== undefined) this.#results[service.uid] = { sid, exit };
    }
  }

  /** For a node that goes down: whoever is on its way goes on. */
  finishMoves(services: Readonly<Record<string, ServiceStatus>>): void {
    this.carryOut(services, ({ target }) => target !== undefined);
  }

  isMoving(): boolean {
    return [...this.#underWay.values()].includes(MOVE);
  }

  /** Whatever else runs under our care is stopped. */
  stopAll(services: Readonly<Record<string, ServiceStatus>>): void {
    for (const [sid, { node, state, target, uid }] of Object.entries(services).toSorted(([a], [b]) =>
      a < b ? -1 : 1,
    )) {
      if (node !== this.#env.node || state === "error") continue;
      const leaves = target !== undefined && this.#results[uid] === undefined;
      if (!leaves && this.#env.guests.isRunning(sid)) this.#stop(sid, undefined);
    }
  }

  #do(sid: string, service: ServiceStatus): ExitCode | undefined {
    switch (service.state) {
      case "started":
        return this.#keepRunning(sid);
      case "request_stop":
      case "stopped":
        return this.#here(sid) ?? exitOf(this.#stop(sid, service.timeoutS));
      case "migrate":
      case "relocate":
      case "request_start_balance":
        return service.target === undefined
          ? "error"
          : this.#move(sid, service.state, service.target, service.uid);
      case "error":
        return this.#sayError(sid, service.uid);
      case "request_start":
      case "freeze":
      case "fence":
      case "recovery":
        return undefined;
    }
  }

  #here(sid: string): ExitCode | undefined {
    if (this.#env.guests.isHere(sid)) return undefined;
    this.#env.log("error", `service '${sid}' not on this node`);
    return "wrongNode";
  }

  #keepRunning(sid: string): ExitCode | undefined {
    const wrong = this.#here(sid);
    if (wrong !== undefined) return wrong;
    if (this.#env.guests.isRunning(sid)) return "success";
    // Taken out of HA, and the manager has not had its round since: whoever stops it now means it.
    if (!this.#env.services().has(sid)) return undefined;
    const started = this.#follow(sid, `starting service ${sid}`, () => this.#env.guests.start(sid));
    if (started === "pending") return undefined;
    // Somebody else may have been before us, as a reboot or a backup that had stopped it: then there was nothing to start.
    if (started || this.#env.guests.isRunning(sid)) {
      this.#env.log("info", `service status ${sid} started`);
      this.#startFailures.delete(sid);
      return "success";
    }
    this.#env.log("warning", `unable to start service ${sid}${this.#because(sid)}`);
    const limit = this.#env.services().get(sid)?.maxRestart ?? 0;
    const failures = (this.#startFailures.get(sid) ?? 0) + 1;
    if (failures <= limit) {
      this.#startFailures.set(sid, failures);
      this.#env.log("warning", `restart policy: retry number ${failures} for service '${sid}'`);
      return "tryAgain";
    }
    this.#startFailures.delete(sid);
    this.#env.log("error", `unable to start service ${sid} on local node after ${failures - 1} retries`);
    return "error";
  }

  #stop(sid: string, timeoutS: number | undefined): ActionOutcome {
    if (!this.#env.guests.isRunning(sid)) return true;
    const text = `stopping service ${sid}${timeoutS === undefined ? "" : ` (timeout=${timeoutS})`}`;
    return this.#stopped(
      sid,
      this.#follow(sid, text, () => this.#env.guests.stop(sid, timeoutS)),
    );
  }

  #stopped(sid: string, stopped: ActionOutcome): ActionOutcome {
    if (stopped === "pending") return stopped;
    this.#env.log(
      "info",
      stopped ? `service status ${sid} stopped` : `unable to stop service ${sid} (still running)`,
    );
    return stopped;
  }

  #move(
    sid: string,
    kind: "migrate" | "relocate" | "request_start_balance",
    target: string,
    order: string,
  ): ExitCode | undefined {
    // One that is being moved is the target's before its end was asked for.
    const wrong = this.#underWay.has(sid) ? undefined : this.#here(sid);
    if (wrong !== undefined) return wrong;
    // Only one that is off is sent elsewhere for its start: nobody asked to stop one that runs.
    const underWay = this.#underWay.has(sid);
    if (kind === "request_start_balance" && !underWay && this.#env.guests.isRunning(sid)) return "ignored";
    const verb = kind === "migrate" ? "migrate" : "relocate";
    const { guests, log } = this.#env;
    if (!this.#underWay.has(sid)) {
      if (!guests.canMove(sid, target)) return this.#notMoved(sid);
      log("info", `service ${sid} - start ${verb} to node '${target}'`);
    }
    if (verb === "relocate" && guests.isRunning(sid)) {
      const text = `stopping service ${sid} (relocate)`;
      const stopped = this.#follow(sid, text, () => guests.stop(sid, undefined));
      if (stopped === "pending") return undefined;
      if (this.#stopped(sid, stopped) !== true) return this.#notMoved(sid);
    }
    const moved = this.#follow(sid, undefined, () => guests.move(sid, target, order));
    if (moved === "pending") return undefined;
    if (!moved) return this.#notMoved(sid);
    log("info", `service ${sid} - end ${verb} to node '${target}'`);
    return "success";
  }

  /** Says what begins, and only then. */
  #follow(sid: string, text: string | undefined, work: () => ActionOutcome): ActionOutcome {
    const what = text ?? MOVE;
    if (this.#underWay.get(sid) !== what && text !== undefined) this.#env.log("info", text);
    const outcome = work();
    if (outcome === "pending") this.#underWay.set(sid, what);
    else this.#underWay.delete(sid);
    return outcome;
  }

  #notMoved(sid: string): ExitCode {
    this.#env.log("error", `service ${sid} not moved (migration error)${this.#because(sid)}`);
    return "error";
  }

  #because(sid: string): string {
    const why = this.#env.guests.whyNot?.(sid);
    return why === undefined ? "" : `: ${why}`;
  }

  #sayError(sid: string, uid: string): undefined {
    if (this.#said.has(uid)) return undefined;
    this.#said.add(uid);
    this.#env.log(
      "error",
      `service ${sid} is in an error state and needs manual intervention. Look up 'ERROR RECOVERY' in the documentation.`,
    );
    return undefined;
  }
}

function exitOf(outcome: ActionOutcome): ExitCode | undefined {
  return outcome === "pending" ? undefined : outcome ? "success" : "error";
}
