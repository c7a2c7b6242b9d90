// Finds the declared route of a request.
import { AppError } from "@gpve/contracts/errors.ts";
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import { V1_PREFIX, type V1Route } from "@gpve/contracts/v1/routes.ts";
import { pathSegments } from "@gpve/domain/schema/path-segments.ts";

export type RouteMatch =
  | { readonly kind: "found"; readonly route: V1Route; readonly params: Readonly<Record<string, string>> }
  | { readonly kind: "wrong-method"; readonly allowed: readonly string[] }
  | { readonly kind: "unknown" };

export class RouteTable {
  readonly #routes: readonly { readonly route: V1Route; readonly segments: readonly string[] }[];

  constructor(routes: readonly V1Route[]) {
    // Literal segments before parameters, so that /nodes/{name}/probe and the like never depend on order.
    this.#routes = routes
      .map((route) => ({ route, segments: pathSegments(route.path) }))
      .toSorted((a, b) => parameters(a.segments) - parameters(b.segments));
  }

  /** `path` is as in the request line, without the query. Segments are decoded after the split. */
  match(method: string, path: string): RouteMatch {
    const segments = pathSegments(path.slice(V1_PREFIX.length)).map(decodeSegment);
    const fitting = this.#routes.filter(({ segments: wanted }) => fits(wanted, segments));
    const found = fitting.find(({ route }) => route.method === method);
    if (found !== undefined) {
      const params: Record<string, string> = {};
      found.segments.forEach((wanted, index) => {
        if (isParameter(wanted)) params[wanted.slice(1, -1)] = segments[index] ?? "";
      });
      return { kind: "found", route: found.route, params };
    }
    if (fitting.length === 0) return { kind: "unknown" };
    return { kind: "wrong-method", allowed: [...new Set(fitting.map(({ route }) => route.method))] };
  }
}

/** Reads a query: every parameter declared, none twice. */
export function readQuery(route: V1Route, text: string): Readonly<Record<string, string>> {
  const values: Record<string, string> = {};
  const known = new Map((route.query ?? []).map((query) => [query.name, query]));
  for (const [name, value] of new URLSearchParams(text)) {
    const bad = (why: string): AppError => invalidField(name, why, `query parameter '${name}' ${why}`);
    const declared = known.get(name);
    if (declared === undefined) {
      const names = [...known.keys()];
      throw bad(
        names.length === 0
          ? "is not known here; this takes none"
          : `is not known here; use ${names.join(", ")}`,
      );
    }
    if (Object.hasOwn(values, name)) throw bad("is given twice");
    const schema = declared.schema as {
      type?: string;
      minimum?: number;
      maximum?: number;
      enum?: readonly string[];
    };
    if (schema.type === "integer") {
      const number = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN;
      if (!(number >= (schema.minimum ?? 0) && number <= (schema.maximum ?? Number.MAX_SAFE_INTEGER))) {
        throw bad(
          `must be a whole number from ${schema.minimum ?? 0} to ${schema.maximum ?? Number.MAX_SAFE_INTEGER}`,
        );
      }
    }
    if (schema.enum !== undefined && !schema.enum.includes(value))
      throw bad(`must be one of ${schema.enum.join(", ")}`);
    values[name] = value;
  }
  return values;
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch (cause) {
    throw new AppError("request.invalid", "the path is not valid percent-encoded UTF-8", { cause });
  }
}

function fits(wanted: readonly string[], segments: readonly string[]): boolean {
  return (
    wanted.length === segments.length &&
    wanted.every((segment, index) => isParameter(segment) || segment === segments[index])
  );
}

function parameters(segments: readonly string[]): number {
  return segments.filter(isParameter).length;
}

function isParameter(segment: string): boolean {
  return segment.startsWith("{");
}
