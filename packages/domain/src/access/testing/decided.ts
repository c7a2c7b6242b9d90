// Decisions for tests that are about something else: made by the real authoriser, for somebody who may everything.
import type { AccessView, Actor } from "../../request/context.ts";
import { decide, type Decision } from "../decision.ts";
import type { AccessModel } from "../model.ts";
import type { CheckParams } from "../permission-check.ts";

export const fullAccess: AccessView = {
  privileges: () => new Map(),
  has: () => true,
  require: () => undefined,
};

const ROOT: Actor = { userid: "root@pam", authid: "root@pam" };
const NOBODY_KNOWN = { users: new Map(), groups: new Map(), members: new Map() } as unknown as AccessModel;

export function decided(route: string, params: CheckParams = {}, actor: Actor = ROOT): Decision {
  return decide(route, params, { actor, access: fullAccess, model: NOBODY_KNOWN });
}

/** In place of an authoriser. */
export function decideAnything(
  route: string,
  params: CheckParams,
  { actor }: { readonly actor: Actor | undefined },
): Decision {
  return decided(route, params, actor);
}
