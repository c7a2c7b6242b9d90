import { AppError } from "@gpve/contracts/errors.ts";
import type { AccessView, Actor } from "../request/context.ts";
import type { AccessModel } from "./model.ts";
import { privilegeSource, type Moment } from "./privileges.ts";

/** The permission answers of one request. Anonymous has none. */
export function createAccessView(model: AccessModel, actor: Actor | undefined, when: Moment): AccessView {
  const source = actor === undefined ? undefined : privilegeSource(model, actor.authid, when);
  const privileges = (path: string): ReadonlyMap<string, boolean> => source?.privileges(path) ?? new Map();
  const has = (path: string, wanted: readonly string[], mode: "all" | "any" = "all"): boolean => {
    const held = privileges(path);
    return mode === "any" ? wanted.some((name) => held.has(name)) : wanted.every((name) => held.has(name));
  };
  return {
    privileges,
    has,
    require: (path, wanted, mode = "all") => {
      if (has(path, wanted, mode)) return;
      if (mode === "any") throw permissionDenied(`${path}, ${wanted.join("|")}`);
      const held = privileges(path);
      throw permissionDenied(`${path}, ${wanted.find((name) => !held.has(name))}`);
    },
  };
}

/** For work that is nobody's: it may nothing, and is decided under its own name. */
export const noAccess: AccessView = {
  privileges: () => new Map(),
  has: () => false,
  require: (path, wanted) => {
    throw permissionDenied(`${path}, ${wanted.join("|")}`);
  },
};

/** PVE's 403: `Permission check failed`, with what was missing when it may be told. */
export function permissionDenied(what?: string): AppError {
  const detail = what === undefined ? "" : ` (${what})`;
  return new AppError("access.denied", `Permission check failed${detail}`);
}
