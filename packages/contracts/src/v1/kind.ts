// A kind is one declaration. Validation, routes, OpenAPI, permissions, the CLI's tables and its
// `describe` derive from it; the server adds an adapter that knows where the records are.
import type { Schema } from "./object.ts";
import type { V1Permission } from "./permission.ts";

export type Verb = "list" | "get" | "watch" | "create" | "replace" | "patch" | "delete";

export interface Column {
  readonly header: string;
  /** Path into the object, "status.health". */
  readonly field: string;
  readonly format?: "text" | "age" | "bytes" | "percent" | "boolean" | "list" | "duration";
  /** Shown only by wide tables. */
  readonly wide?: boolean;
}

export interface KindDeclaration {
  readonly kind: string;
  readonly plural: string;
  /** Other names the CLI understands. */
  readonly aliases: readonly string[];
  readonly scope: "cluster" | "node" | "tenant";
  /** Whether metadata.namespace names the tenant it belongs to. */
  readonly namespaced?: boolean;
  /** Names are unique in their tenant only: paths by name alone take `tenant`, where several are meant. */
  readonly namesInTenant?: true;
  /** The tenant of one whose maker names none. */
  readonly defaultNamespace?: string;
  /** A new one may also be sent as its spec alone, with its name among the fields. */
  readonly flatBody?: true;
  /** What `wait` does to a create; undefined: the answer comes when the object is there. */
  readonly waitedCreate?: string;
  readonly description: string;
  readonly spec: Schema;
  readonly status: Schema;
  /** ECMA regular expression of metadata.name. */
  readonly namePattern: string;
  /** The same for people, where they choose the name. */
  readonly nameWords?: string;
  /** How the name follows from spec; then it may be left out. "{spec.role}@{spec.path}". */
  readonly nameTemplate?: string;
  readonly permissions: Readonly<Partial<Record<Verb, V1Permission>>>;
  /** Changing labels or annotations needs this besides. Default: nothing more. */
  readonly labelsPermission?: V1Permission;
  /** Fields usable in fieldSelector besides metadata.name. */
  readonly selectableFields: readonly string[];
  readonly columns: readonly Column[];
  /** Groups of fields in the order `describe` shows them. */
  readonly describe: readonly { readonly title: string; readonly fields: readonly string[] }[];
  /** What `force` does to a delete that would be refused; undefined: nothing can be forced. */
  readonly forcedDelete?: string;
  /** Lower numbers are applied first, so that what others refer to exists. Undefined: not appliable. */
  readonly applyOrder?: number;
  /** Why nobody applies it, for who tries. */
  readonly notApplied?: string;
  /** Status also changes without a write to the store (live figures from nodes). */
  readonly liveStatus?: boolean;
}

export function verbsOf(kind: KindDeclaration): readonly Verb[] {
  return Object.keys(kind.permissions) as Verb[];
}
