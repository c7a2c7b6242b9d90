import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { storageKind } from "@gpve/contracts/v1/kinds/storage.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { validateParams } from "@gpve/domain/schema/validate-params.ts";
import {
  changedStorageDefinition,
  contentText,
  isDisabled,
  isShared,
  newStorageDefinition,
  servesNode,
  splitStorageList,
  storageCollection,
  type StorageDefinition,
  type StorageOptionValue,
} from "@gpve/domain/storage/definition.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import type { StorageChanges } from "../../storage/storage-work.ts";
import { byName, type KindActions, type KindAdapter, type RawObject, type Reader } from "../adapter.ts";

export interface StorageAdapterDeps {
  readonly board: NodeBoard;
  readonly storageWork: StorageChanges;
}

/** Definitions of storages, with what nodes report of them. */
export function storageAdapter({ board, storageWork }: StorageAdapterDeps): KindAdapter {
  const raw = (reader: Reader, entry: Entry<StorageDefinition>): RawObject => ({
    name: entry.id,
    spec: specOf(entry.value),
    status: statusOf(entry.value, board, reader),
    revision: entry.revision,
    createRevision: entry.createRevision,
    generation: entry.version,
    ...given({ madeBy: entry.value.madeBy }),
  });
  return {
    kind: storageKind,
    collections: [storageCollection as CollectionDef<unknown>, poolsDef as CollectionDef<unknown>],
    list: (reader) =>
      reader
        .list(storageCollection)
        .map((entry) => raw(reader, entry))
        .toSorted(byName),
    get: (reader, name) => {
      const entry = reader.get(storageCollection, name);
      return entry === undefined ? undefined : raw(reader, entry);
    },
    onChange: (records, changed) => {
      const stops = [
        records.collection(storageCollection).onChange((id) => changed([id])),
        records
          .collection(poolsDef)
          .onChange((_id, after, before) =>
            changed([...new Set([...(after?.value.storage ?? []), ...(before?.value.storage ?? [])])]),
          ),
      ];
      return () => stops.forEach((stop) => stop());
    },
    act: actions(storageWork),
  };
}

function actions(work: StorageChanges): KindActions {
  return {
    secrets: new Set(),
    settle: (reader, { name, spec }) => {
      const before = reader.get(storageCollection, name)?.value;
      const { type, options } = readSpec(name, spec, before);
      if (before === undefined) return specOf(newStorageDefinition(name, type, options));
      const { set, gone } = changesOf(before, options);
      return specOf(changedStorageDefinition(before, set, gone));
    },
    async create({ name, spec, ctx }) {
      const { type, options } = readSpec(name, spec);
      await work.create(name, type, options, ctx);
    },
    async change({ name, spec, previous, ctx }) {
      // What was judged is what is changed: another one's change in between is found by the digest.
      const digest = work.digest();
      const before = definitionOf(name, previous.spec);
      const { options } = readSpec(name, spec, before);
      const { set, gone } = changesOf(before, options);
      if (Object.keys(set).length + gone.length === 0) return;
      await work.update(name, { set, delete: gone.join(","), digest }, ctx);
    },
    remove: ({ name }) => work.remove(name),
    // A definition is there or not: nothing of it is on its way.
    forestall: () => Promise.resolve(),
    discard: ({ name }) => work.remove(name),
  };
}

/** Options with a field of their own. */
const FIELDS: Readonly<Record<string, string>> = {
  content: "content",
  nodes: "nodes",
  shared: "shared",
  disable: "disabled",
};

interface Wanted {
  readonly type: string;
  readonly options: Readonly<Record<string, StorageOptionValue>>;
}

function readSpec(name: string, spec: Fields, before?: StorageDefinition): Wanted {
  const type = String(spec["type"]);
  if (before !== undefined && before.type !== type)
    throw bad("spec.type", `is '${before.type}' and stays so: define another storage`);
  const named = (spec["options"] ?? {}) as Readonly<Record<string, StorageOptionValue>>;
  const own = Object.keys(named).find((option) => Object.hasOwn(FIELDS, option));
  if (own !== undefined) throw bad(`spec.options.${own}`, `is spec.${FIELDS[own] ?? own}`);
  const list = (field: string): string | undefined =>
    Array.isArray(spec[field]) ? spec[field].join(",") : undefined;
  const asked = {
    ...named,
    ...given({ content: list("content"), nodes: list("nodes") || undefined }),
    ...(spec["shared"] === true ? { shared: true } : {}),
    ...(spec["disabled"] === true ? { disable: true } : {}),
  };
  const { storage: _storage, type: _type, ...options } = checkedParams({ storage: name, type, ...asked });
  return { type, options: options as Wanted["options"] };
}

/** As PVE's own method checks them; what is wrong is told by the field it came from. */
function checkedParams(asked: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const method = methodByKey("POST /storage");
  if (method === undefined) throw new AppError("internal.error", "POST /storage has no schema");
  const result = validateParams(method, asked, { source: "json" });
  if (result.ok) return result.params;
  const errors = Object.fromEntries(
    Object.entries(result.errors).map(([key, why]) => [
      `spec.${FIELDS[key] ?? fieldOfOption(key)}`,
      why.trim(),
    ]),
  );
  const [field = "", why = ""] = Object.entries(errors)[0] ?? [];
  throw new AppError("request.invalid", `the Storage is not valid: ${field}: ${why}`, { errors });
}

function fieldOfOption(key: string): string {
  return key === "type" ? key : `options.${key}`;
}

function changesOf(before: StorageDefinition, wanted: Wanted["options"]) {
  const set = Object.fromEntries(
    Object.entries(wanted).filter(([key, value]) => before.options[key] !== value),
  );
  // Content that is not said is the default of the type again.
  const gone = Object.keys(before.options).filter((key) => wanted[key] === undefined);
  return { set, gone };
}

function definitionOf(name: string, spec: Fields): StorageDefinition {
  const { type, options } = readSpec(name, spec);
  return { storage: name, type, options };
}

function specOf(definition: StorageDefinition): Fields {
  const nodes = splitStorageList(String(definition.options["nodes"] ?? ""));
  const rest = Object.entries(definition.options).filter(([key]) => !Object.hasOwn(FIELDS, key));
  return {
    type: definition.type,
    content: splitStorageList(contentText(definition)),
    ...(nodes.length === 0 ? {} : { nodes }),
    ...(definition.options["shared"] === true ? { shared: true } : {}),
    ...(isDisabled(definition) ? { disabled: true } : {}),
    ...(rest.length === 0 ? {} : { options: Object.fromEntries(rest) }),
  };
}

function statusOf(definition: StorageDefinition, board: NodeBoard, reader: Reader): Fields {
  const shared = isShared(definition);
  const nodes = board.list().flatMap(({ node, report }) => {
    if (!servesNode(definition, node)) return [];
    const found = report?.storages.find(({ storage }) => storage === definition.storage);
    if (found === undefined) return [];
    const { active, totalBytes, usedBytes, availBytes, problem } = found;
    const reason = given({ reason: problem });
    return [{ node, active, totalBytes, usedBytes, availableBytes: availBytes, ...reason }];
  });
  const working = nodes.filter(({ active }) => active);
  // What is shared is one place, however many nodes tell of it.
  const counted = shared ? working.slice(0, 1) : working;
  const sum = (of: (row: (typeof nodes)[number]) => number): number =>
    counted.reduce((total, row) => total + of(row), 0);
  return {
    shared,
    active: !isDisabled(definition) && working.length > 0,
    nodes,
    totalBytes: sum((row) => row.totalBytes),
    usedBytes: sum((row) => row.usedBytes),
    availableBytes: sum((row) => row.availableBytes),
    tenants: reader
      .list(poolsDef)
      .filter(({ value }) => value.storage.includes(definition.storage))
      .map(({ id }) => id)
      .toSorted(),
  };
}

function bad(field: string, why: string): AppError {
  return invalidField(field, why, `the Storage is not valid: ${field} ${why}`);
}
