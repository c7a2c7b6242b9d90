// How a route between servers and agents is declared.
import type { TSchema } from "typebox";
import type { DeclaredRoute } from "../pve/routes.ts";
import type { PveCheck, PvePermission } from "../pve/schema.ts";

type Needs = PvePermission | { readonly like: DeclaredRoute };

export interface AgentRouteDecl<Q extends TSchema = TSchema, A extends TSchema = TSchema> {
  readonly needs: Needs;
  /** Checked by the node. */
  readonly request: Q;
  /** Checked by the server: a node may be anybody's. For tunnels, what the node says when it has opened one. */
  readonly answer: A;
}

export const route = <Q extends TSchema, A extends TSchema>(
  needs: Needs,
  request: Q,
  answer: A,
): AgentRouteDecl<Q, A> => ({ needs, request, answer });
export const perm = (path: string, ...privileges: readonly string[]): PveCheck => ["perm", path, privileges];
export const check = (needed: PveCheck): Needs => ({ check: needed });
export const like = (declared: DeclaredRoute): Needs => ({ like: declared });
