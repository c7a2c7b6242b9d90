// Labels and annotations of all kinds: /gpve/meta/<kind>/<id>, which is the name for most. The records they belong to know nothing of them.
import { createHash } from "node:crypto";
import { given } from "@gpve/contracts/given.ts";
import { API_VERSION } from "@gpve/contracts/v1/object.ts";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import { idOf, type RawObject, type Reader } from "./adapter.ts";

export interface MetaRecord {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch; 0 = the object is older than its labels. */
  readonly createdAt: number;
}

export const metaCollection: CollectionDef<MetaRecord> = {
  prefix: "/gpve/meta/",
  decode: (json) => {
    const fields = typeof json === "object" && json !== null ? (json as Record<string, unknown>) : {};
    return {
      labels: textMap(fields["labels"]),
      annotations: textMap(fields["annotations"]),
      createdAt: typeof fields["createdAt"] === "number" ? fields["createdAt"] : 0,
    };
  },
};

/** Names may hold slashes; ids of one kind must not reach into another's. */
export function metaId(kind: string, objectId: string): string {
  return `${kind}/${encodeURIComponent(objectId)}`;
}

/** undefined = not an id of this kind. */
export function idOfMetaId(kind: string, id: string): string | undefined {
  return id.startsWith(`${kind}/`) ? decodeURIComponent(id.slice(kind.length + 1)) : undefined;
}

export function projectObject(kind: string, raw: RawObject, meta: Entry<MetaRecord> | undefined): V1Object {
  const createdAt = raw.createdAt ?? meta?.value.createdAt ?? 0;
  return {
    apiVersion: API_VERSION,
    kind,
    metadata: {
      name: raw.name,
      ...given({ namespace: raw.namespace }),
      uid: uidOf(kind, raw),
      labels: { ...(raw.labels ?? meta?.value.labels) },
      annotations: { ...meta?.value.annotations },
      resourceVersion: `${Math.max(raw.revision, meta?.revision ?? 0)}${raw.versionSuffix ?? ""}`,
      ...(createdAt === 0 ? {} : { creationTimestamp: new Date(createdAt).toISOString() }),
      generation: raw.generation,
    },
    spec: raw.spec,
    status: raw.status,
  };
}

export function readMeta(reader: Reader, kind: string, objectId: string): Entry<MetaRecord> | undefined {
  return reader.get(metaCollection, metaId(kind, objectId));
}

/** Shaped like a UUID and the same at every server: it follows from where and when the object came to be. */
export function uidOf(kind: string, raw: Pick<RawObject, "id" | "name" | "createRevision">): string {
  const hex = createHash("sha256")
    .update(`${kind}\0${idOf(raw)}\0${raw.createRevision}`)
    .digest("hex");
  const variant = ((Number.parseInt(hex.charAt(16), 16) & 0x3) | 0x8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    variant + hex.slice(17, 20),
    hex.slice(20, 32),
  ].join("-");
}

function textMap(value: unknown): Record<string, string> {
  if (typeof value !== "object" || value === null) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}
