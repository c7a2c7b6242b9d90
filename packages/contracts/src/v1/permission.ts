// Who may do what under /api/v1, as data. The vocabulary is PVE's: privileges on ACL paths.

/** `{name}` and `{spec.path}` in templates are filled from the object. */
export type V1Permission =
  /** Anyone, even without credentials. */
  | { readonly allow: "anonymous" }
  /** Any authenticated user or token. */
  | { readonly allow: "authenticated" }
  /** The user (or a token of the user) that this field of the object names. */
  | { readonly allow: "owner"; readonly field: string }
  | {
      readonly allow: "privilege";
      readonly path: string;
      readonly privileges: readonly string[];
      /** Default "all". */
      readonly mode?: "all" | "any";
      /** On what is above the path instead: /pool/a for /pool/a/b. */
      readonly above?: true;
    }
  /** PVE's rule for changing the ACL of a path. */
  | { readonly allow: "acl-modify"; readonly path: string }
  /** Seeing the ACL of a path. */
  | { readonly allow: "acl-audit"; readonly path: string }
  /** Any of the privileges on the tenant that metadata.namespace names, before and after; what is in none is nobody's. */
  | { readonly allow: "tenant"; readonly privileges: readonly string[] }
  /** PVE's rule for a user's groups: the privileges on the user's realm or on one of its groups. */
  | { readonly allow: "user-group"; readonly privileges: readonly string[] }
  | { readonly anyOf: readonly V1Permission[] }
  | { readonly allOf: readonly V1Permission[] };

export const anonymous: V1Permission = { allow: "anonymous" };
export const authenticated: V1Permission = { allow: "authenticated" };

export function privilege(
  path: string,
  ...privileges: readonly string[]
): Extract<V1Permission, { allow: "privilege" }> {
  return { allow: "privilege", path, privileges };
}

/** Whoever has the privilege only there does not have it here. */
export function above(rule: Extract<V1Permission, { allow: "privilege" }>): V1Permission {
  return { ...rule, above: true };
}

export function owner(field: string): V1Permission {
  return { allow: "owner", field };
}

export function anyOf(...rules: readonly V1Permission[]): V1Permission {
  return { anyOf: rules };
}

export function allOf(...rules: readonly V1Permission[]): V1Permission {
  return { allOf: rules };
}

/** One line for documents and `explain`: "Pool.Audit on /pool/{name}". */
export function describePermission(rule: V1Permission): string {
  if ("anyOf" in rule) return rule.anyOf.map(describePermission).join(", or ");
  if ("allOf" in rule) return rule.allOf.map(describePermission).join(", and ");
  switch (rule.allow) {
    case "anonymous":
      return "anyone";
    case "authenticated":
      return "any authenticated user";
    case "owner":
      return `the user named by ${rule.field}`;
    case "privilege":
      return `${rule.privileges.join(rule.mode === "any" ? " or " : " and ")} ${rule.above === true ? "above" : "on"} ${rule.path}`;
    case "acl-modify":
      return `the right to change the ACL of ${rule.path}`;
    case "acl-audit":
      return `Sys.Audit on /access, or Tenant.Audit on ${rule.path} in a tenant, or the right to change its ACL`;
    case "tenant":
      return `${rule.privileges.join(" or ")} on /pool/{metadata.namespace}`;
    case "user-group":
      return `${rule.privileges.join(" or ")} on one of the user's groups`;
  }
}

/** The verbs of who may see objects of a kind. */
export function toRead(needs: V1Permission): Readonly<Record<"list" | "get" | "watch", V1Permission>> {
  return { list: needs, get: needs, watch: needs };
}

/** The verbs of who may change them. */
export function toChange(
  needs: V1Permission,
): Readonly<Record<"create" | "replace" | "patch" | "delete", V1Permission>> {
  return { create: needs, replace: needs, patch: needs, delete: needs };
}
