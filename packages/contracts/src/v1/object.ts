// The shape every object of /api/v1 has: metadata, spec (what is wanted) and status (what is).
import { Type, type Static, type TSchema } from "typebox";
import type { Fields } from "../json-object.ts";

export const API_VERSION = "gpve.io/v1";

/** A JSON Schema as data. typebox makes them; OpenAPI and the validator read them. */
export type Schema = TSchema;

const labelKey = "^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$";

export const LabelsSchema = Type.Unsafe<Record<string, string>>({
  type: "object",
  propertyNames: { pattern: labelKey },
  additionalProperties: {
    type: "string",
    maxLength: 63,
    pattern: "^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$",
  },
  maxProperties: 64,
  description: "Short values to select objects by.",
});

export const AnnotationsSchema = Type.Unsafe<Record<string, string>>({
  type: "object",
  propertyNames: { pattern: labelKey },
  additionalProperties: { type: "string", maxLength: 65_536 },
  maxProperties: 64,
  description: "Free text kept with the object; not selectable.",
});

export const ObjectMetaSchema = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 256 }),
    namespace: Type.Optional(Type.String({ description: "The tenant (pool) it belongs to." })),
    uid: Type.String({ description: "Differs when an object is deleted and made again under its name." }),
    labels: LabelsSchema,
    annotations: AnnotationsSchema,
    resourceVersion: Type.String({
      description: "Opaque; equal means unchanged. Send it back to replace safely.",
    }),
    creationTimestamp: Type.Optional(
      Type.String({ format: "date-time", description: "Absent when the moment was not recorded." }),
    ),
    generation: Type.Integer({ minimum: 1, description: "Grows with every change of spec." }),
  },
  { additionalProperties: false },
);

/** What a client may send. Read-only fields are accepted and ignored, so that GET, edit, PUT works. */
export const ObjectMetaInputSchema = Type.Object(
  {
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
    namespace: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
    uid: Type.Optional(Type.String()),
    labels: Type.Optional(LabelsSchema),
    annotations: Type.Optional(AnnotationsSchema),
    resourceVersion: Type.Optional(Type.String({ maxLength: 32 })),
    creationTimestamp: Type.Optional(Type.String()),
    generation: Type.Optional(Type.Integer()),
  },
  { additionalProperties: false },
);

export type ObjectMeta = Static<typeof ObjectMetaSchema>;

export interface V1Object {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: string;
  readonly metadata: ObjectMeta;
  readonly spec: Fields;
  readonly status: Fields;
}

export interface V1ObjectInput {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Static<typeof ObjectMetaInputSchema>;
  readonly spec: Fields;
  readonly status?: unknown;
}

export interface V1List {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: string;
  readonly metadata: {
    readonly resourceVersion: string;
    readonly continue?: string;
    readonly remainingItemCount?: number;
  };
  readonly items: readonly V1Object[];
}

export type ObjectEventType = "ADDED" | "MODIFIED" | "DELETED";
