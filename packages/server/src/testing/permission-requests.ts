// How a comparison of the two faces is written down.
import { given } from "@gpve/contracts/given.ts";

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  /** Lists and watches answer everybody: whoever may not see the object does not find this text. */
  readonly shows?: string;
}

export interface Scenario {
  readonly what: string;
  readonly v1: Request;
  /** All of them together have the effect. */
  readonly api2: readonly Request[];
  /** Where /api/v1 may refuse more: it lacks one of these. Its answer shows the object, for instance. */
  readonly v1Needs?: readonly string[];
}

/** No method of PVE's has the effect. */
export interface Own {
  readonly own: string;
}

export const get = (path: string, shows?: string): Request => ({
  method: "GET",
  path: `/api2/json${path}`,
  ...given({ shows }),
});
export const api2 = (method: string, path: string, body: unknown = {}): Request => ({
  method,
  path: `/api2/json${path}`,
  ...(method === "DELETE" ? {} : { body }),
});
export const v1 = (method: string, path: string, body?: unknown, shows?: string): Request => ({
  method,
  path: `/api/v1${path}`,
  ...given({ body, shows }),
});
export const object = (kind: string, name: string | undefined, spec: object, labels?: object) => ({
  apiVersion: "gpve.io/v1",
  kind,
  metadata: { ...given({ name, labels }) },
  spec,
});

interface Kind {
  readonly plural: string;
  readonly name: string;
  readonly shows: string;
  readonly list: Request;
  readonly get: Request;
}

/** list, get and watch show the same. */
export function reading(kind: string, { plural, name, shows, list, get: one }: Kind): [string, Scenario[]][] {
  const path = `/${plural}`;
  return [
    [`${kind} list`, [{ what: "list", v1: v1("GET", path, undefined, shows), api2: [list] }]],
    [`${kind} watch`, [{ what: "watch", v1: v1("GET", `${path}?watch=1`, undefined, shows), api2: [list] }]],
    [`${kind} get`, [{ what: "get", v1: v1("GET", `${path}/${encodeURIComponent(name)}`), api2: [one] }]],
  ];
}

/** A change, by replacing, by patching, and among applied objects. */
export function changing(
  kind: string,
  plural: string,
  name: string,
  spec: object,
  rest: Omit<Scenario, "v1" | "what">,
): [string, Scenario[]][] {
  const path = `/${plural}/${encodeURIComponent(name)}`;
  const whole = object(kind, name, spec);
  return [
    [`${kind} replace`, [{ what: "replace", v1: v1("PUT", path, whole), ...rest }]],
    [`${kind} patch`, [{ what: "patch", v1: v1("PATCH", path, { spec }), ...rest }]],
    [`${kind} apply`, [{ what: "apply", v1: v1("POST", "/apply", { objects: [whole] }), ...rest }]],
    [`${kind} plan`, [{ what: "plan", v1: v1("POST", "/plan", { objects: [whole] }), ...rest }]],
  ];
}
