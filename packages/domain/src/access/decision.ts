// That a call to a node may be made: which method, for whom, on what. Every call to an agent carries one, made here from
// the method's own declaration; an agent does nothing without one that fits the call.
//
// A decision is a value that only this file can make: one that was forgotten does not compile, one that was made up is
// refused. What the system does by itself is decided too, under a name and for the methods that the name stands for.
import { agentRoute } from "@gpve/contracts/agent/agent-routes.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { PvePermission } from "@gpve/contracts/pve/schema.ts";
import type { Actor } from "../request/context.ts";
import { methodByKey } from "../schema/method-table.ts";
import { permissionDenied } from "./access-view.ts";
import { checkPermission, paramText, type CheckParams, type PermissionSubject } from "./permission-check.ts";
import { isSystemWork, SYSTEM_WORK, type SystemWork } from "./system-work.ts";

/** What a decision says; as such it also travels. */
export interface DecisionFacts {
  readonly route: string;
  readonly actor: Actor | undefined;
  /** The parameters that were looked at, as text: those of the path, and those the permission names. */
  readonly judged: Readonly<Record<string, string>>;
  /** Set: the system's own. */
  readonly work?: SystemWork;
}

class MadeDecision implements DecisionFacts {
  readonly #made = true;
  readonly route: string;
  readonly actor: Actor | undefined;
  readonly judged: Readonly<Record<string, string>>;
  readonly work?: SystemWork;

  constructor(facts: DecisionFacts) {
    this.route = facts.route;
    this.actor = facts.actor;
    this.judged = Object.freeze({ ...facts.judged });
    if (facts.work !== undefined) this.work = facts.work;
    Object.freeze(this);
  }

  static made(value: unknown): value is MadeDecision {
    return typeof value === "object" && value !== null && #made in value && value.#made;
  }
}

export type Decision = MadeDecision;

/** Throws access.denied, in PVE's words, when the subject may not call this method with these parameters. */
export function decide(route: string, params: CheckParams, subject: PermissionSubject): Decision {
  const { permission } = declarationOf(route);
  checkPermission(permission, params, subject);
  return new MadeDecision({ route, actor: subject.actor, judged: judgedOf(route, params) });
}

/** For work of the system itself, as `actor` where it is done in somebody's name. */
export function decideForSystem(
  work: SystemWork,
  route: string,
  params: CheckParams,
  actor: Actor | undefined,
): Decision {
  requireWork(work, route);
  return new MadeDecision({ route, actor, judged: judgedOf(route, params), work });
}

/** What a server sent. Only for the agent's side of the wire: the peer has proved to be a server. */
export function decisionFromServer(facts: DecisionFacts): Decision {
  if (facts.work !== undefined) requireWork(facts.work, facts.route);
  return new MadeDecision(facts);
}

/** Before an agent does anything: throws unless the decision is one, and is about this very call. */
export function requireDecision(
  decision: unknown,
  call: { readonly node: string; readonly params: CheckParams },
): asserts decision is Decision {
  if (!MadeDecision.made(decision)) throw noDecision();
  const wanted = judgedOf(decision.route, call.params);
  const here = (name: string, text: string | undefined) =>
    name === "node" && text === "localhost" ? call.node : text;
  const names = new Set([...Object.keys(wanted), ...Object.keys(decision.judged)]);
  for (const name of names) {
    if (here(name, wanted[name]) === here(name, decision.judged[name])) continue;
    throw permissionDenied(
      `${decision.route}: decided for ${name} ${shown(decision.judged[name])}, called with ${shown(wanted[name])}`,
    );
  }
}

export function noDecision(): AppError {
  return new AppError(
    "access.denied",
    "Permission check failed (the call carries no decision: this node does nothing that no server has decided; a server that is older than this node must be updated)",
  );
}

function requireWork(work: string, route: string): void {
  const routes: readonly string[] = isSystemWork(work) ? SYSTEM_WORK[work] : [];
  if (!routes.includes(route)) throw permissionDenied(`${work} is not to call ${route}`);
}

interface Declaration {
  readonly permission: PvePermission;
  readonly names: readonly string[];
}

const declarations = new Map<string, Declaration>();

function declarationOf(route: string): Declaration {
  let known = declarations.get(route);
  if (known === undefined) {
    const permission = permissionOf(route);
    const named = JSON.stringify(permission).matchAll(/\{([^{}"]+)\}|"require_param","([^"]+)"/g);
    const names = [...route.matchAll(/\{([^}]+)\}/g), ...named].map((match) => match[1] ?? match[2] ?? "");
    known = { permission, names: [...new Set(names)] };
    declarations.set(route, known);
  }
  return known;
}

function permissionOf(route: string): PvePermission {
  const declared = agentRoute(route)?.needs;
  const key = declared !== null && declared !== undefined && "like" in declared ? declared.like : route;
  if (declared !== undefined && key === route) return declared as PvePermission;
  const method = methodByKey(key);
  if (method === undefined)
    throw new AppError("internal.error", `${route} is not declared: nobody may call it`);
  return method.permissions;
}

function judgedOf(route: string, params: CheckParams): Record<string, string> {
  const judged: Record<string, string> = {};
  for (const name of declarationOf(route).names) {
    const text = paramText(params[name]);
    if (text !== undefined) judged[name] = text;
  }
  return judged;
}

function shown(text: string | undefined): string {
  return text === undefined ? "nothing" : JSON.stringify(text);
}
