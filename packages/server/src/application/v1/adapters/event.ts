import { given } from "@gpve/contracts/given.ts";
import { eventKind } from "@gpve/contracts/v1/kinds/event.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import type { KindAdapter, RawObject } from "../adapter.ts";
import { eventCollection } from "../events.ts";
import type { EventRecord } from "../events.ts";

export function eventAdapter(): KindAdapter {
  return {
    kind: eventKind,
    collections: [eventCollection as CollectionDef<unknown>],
    list: (reader) => reader.list(eventCollection).map(raw),
    get: (reader, name) => {
      const entry = reader.get(eventCollection, name);
      return entry === undefined ? undefined : raw(entry);
    },
    onChange: (records, changed) => records.collection(eventCollection).onChange((id) => changed([id])),
  };
}

function raw(entry: Entry<EventRecord>): RawObject {
  const { type, reason, message, object, node, count, firstAt, lastAt } = entry.value;
  // Of virtual clusters there is a route of its own, for whoever may see those.
  const namespace = object.kind === "VirtualMachine" ? object.namespace : undefined;
  return {
    name: entry.id,
    ...given({ namespace }),
    spec: { type, reason, message, object: { ...object }, ...given({ node }) },
    status: { count, firstAt: new Date(firstAt).toISOString(), lastAt: new Date(lastAt).toISOString() },
    revision: entry.revision,
    createRevision: entry.createRevision,
    generation: 1,
    createdAt: firstAt,
  };
}
