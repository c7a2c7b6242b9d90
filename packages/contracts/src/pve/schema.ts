// The shape of the generated PVE API description (gen/pve-api.json). See tools/gen/pve.ts.

export interface PveSchema {
  readonly type?: "string" | "integer" | "number" | "boolean" | "array" | "object" | "null";
  readonly optional?: boolean;
  readonly default?: unknown;
  /** null: an enumeration computed at run time upstream. */
  readonly enum?: readonly string[] | null;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly patternFlags?: string;
  /** A name in gen/named-formats.json, or the schema of a property string. */
  readonly format?: string | Readonly<Record<string, PveSchema>>;
  readonly items?: PveSchema;
  readonly properties?: Readonly<Record<string, PveSchema>>;
  readonly additionalProperties?: boolean | PveSchema;
  readonly oneOf?: readonly PveSchema[];
  readonly indexRange?: readonly [number, number];
  readonly default_key?: boolean | 0 | 1;
  readonly alias?: string;
  readonly keyAlias?: string;
  readonly requires?: string;
  readonly "type-property"?: string;
  readonly "instance-types"?: readonly string[];
}

export type PveVerb = "GET" | "POST" | "PUT" | "DELETE";

/** Grammar: wire contract section 6. null = root@pam only. */
export type PvePermission =
  | null
  | { readonly user: "all" | "world" }
  | { readonly check: PveCheck; readonly user?: string };

export type PveCheck = readonly unknown[];

export interface PveMethod {
  readonly path: string;
  readonly method: PveVerb;
  readonly name: string;
  readonly protected: boolean;
  readonly proxyto: string | null;
  readonly allowtoken: boolean;
  readonly parameters: Readonly<Record<string, PveSchema>>;
  readonly additionalProperties: boolean;
  readonly returns: PveSchema;
  readonly permissions: PvePermission;
  readonly permissionsHasExtraRules?: boolean;
  readonly links?: readonly { readonly rel: string; readonly href: string }[];
  readonly download_allowed?: boolean;
}
