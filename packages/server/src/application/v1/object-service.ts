// List, read and change objects of every kind: permission, validation, optimistic concurrency and idempotency in
// one place. Adapters only know where the records are.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/contracts/json-object.ts";
import { fieldText, readTemplate } from "@gpve/contracts/v1/field-path.ts";
import type { KindDeclaration, Verb } from "@gpve/contracts/v1/kind.ts";
import { API_VERSION } from "@gpve/contracts/v1/object.ts";
import type { V1List, V1Object } from "@gpve/contracts/v1/object.ts";
import type { V1Permission } from "@gpve/contracts/v1/permission.ts";
import {
  formatSelector,
  matches,
  parseFieldSelector,
  parseLabelSelector,
} from "@gpve/contracts/v1/selector.ts";
import type { Selector } from "@gpve/contracts/v1/selector.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { KindAdapter } from "./adapter.ts";
import { mayDo, requireMay } from "./authorisation.ts";
import type { ObjectsAt } from "./history.ts";
import type { Idempotency, IdempotentRequest } from "./idempotency.ts";
import { KindCache } from "./kind-cache.ts";
import { ListSnapshots, decodeContinue, encodeContinue, pageOf, placeOf } from "./list-pages.ts";
import { mergePatch } from "./merge-patch.ts";
import type { CheckedObject, Validator } from "./validation.ts";
import { ObjectActions } from "./object-actions.ts";
import { missingVerb, removeObject, storedOutcome, writeObject } from "./write-object.ts";
import type { WriteOutcome, Write } from "./write-object.ts";

export interface ObjectServiceDeps {
  readonly records: Records;
  readonly clock: Clock;
  readonly validator: Validator;
  readonly idempotency: Idempotency;
  readonly adapters: readonly KindAdapter[];
  /** For pages of a list that was begun at another server. */
  readonly history: ObjectsAt;
}

export interface Selection {
  readonly labels: Selector;
  readonly fields: Selector;
}

export interface ListQuery extends Selection {
  /** 0 = all. */
  readonly limit: number;
  readonly continue?: string;
}

export class ObjectService {
  readonly #deps: ObjectServiceDeps;
  readonly #caches: ReadonlyMap<string, KindCache>;
  readonly #snapshots: ListSnapshots;
  readonly #actions: ObjectActions;

  constructor(deps: ObjectServiceDeps) {
    this.#deps = deps;
    this.#snapshots = new ListSnapshots(deps.clock);
    this.#actions = new ObjectActions(deps);
    this.#caches = new Map(
      deps.adapters.map((adapter) => [adapter.kind.kind, new KindCache(adapter, deps.records)]),
    );
  }

  close(): void {
    for (const cache of this.#caches.values()) cache.close();
  }

  cache(kind: string): KindCache {
    const cache = this.#caches.get(kind);
    if (cache === undefined)
      throw new AppError("feature.unsupported", `this server does not serve ${kind} objects`);
    return cache;
  }

  /** undefined = this server has no such kind. */
  adapter(kind: string): KindAdapter | undefined {
    return this.#caches.get(kind)?.adapter;
  }

  async list(kind: string, query: ListQuery, ctx: RequestContext): Promise<V1List> {
    const cache = this.cache(kind);
    const permission = permissionOf(cache.adapter, "list");
    const selectors = `${formatSelector(query.labels)}|${formatSelector(query.fields)}`;
    let objects: readonly V1Object[];
    let revision: number;
    let after: string | undefined;
    if (query.continue === undefined) {
      await this.#deps.records.fresh({ signal: ctx.signal });
      objects = cache.list();
      revision = this.#deps.records.revision();
    } else {
      const token = decodeContinue(query.continue);
      if (token.kind !== kind || token.selectors !== selectors) {
        throw new AppError("request.invalid", "continue belongs to another list", {
          errors: { continue: "was given for another kind or other selectors" },
        });
      }
      ({ revision, after } = token);
      objects =
        this.#snapshots.find(kind, revision) ?? (await this.#past(cache.adapter, revision, ctx.signal));
    }
    const { items, more, remaining } = pageOf(
      objects,
      after,
      query.limit,
      (object) => selected(object, query) && mayDo(permission, ctx, { current: object }),
    );
    const last = items.at(-1)?.metadata;
    if (more) this.#snapshots.save(kind, revision, objects);
    return {
      apiVersion: API_VERSION,
      kind: `${kind}List`,
      metadata: {
        resourceVersion: String(revision),
        ...(more && last !== undefined
          ? { continue: encodeContinue({ kind, revision, after: placeOf(last), selectors }) }
          : {}),
        ...given({ remainingItemCount: remaining }),
      },
      items,
    };
  }

  /** By its id, as all that follow: the name, but for kinds whose names are their tenant's. */
  async get(kind: string, id: string, ctx: RequestContext): Promise<V1Object> {
    await this.requireVerb(kind, "get", id, ctx);
    const object = this.cache(kind).get(id);
    if (object === undefined) throw notFound(kind, id);
    return object;
  }

  create(kind: string, body: unknown, ctx: RequestContext, once?: IdempotentRequest): Promise<WriteOutcome> {
    const { adapter } = this.cache(kind);
    // Permission before parameters here too, on what the body claims; the checked object is judged again.
    requireMay(permissionOf(adapter, "create"), ctx, { desired: body });
    const object = this.#deps.validator.checkObject(adapter.kind, body);
    if (adapter.act !== undefined) return this.#actions.put({ adapter, object, verb: "create", ctx }, once);
    return this.#change(once, ctx, (tx) =>
      writeObject(tx, this.#deps.clock.now(), { adapter, object, verb: "create", ctx }),
    );
  }

  replace(
    kind: string,
    id: string,
    body: unknown,
    ctx: RequestContext,
    once?: IdempotentRequest,
  ): Promise<WriteOutcome> {
    const cache = this.cache(kind);
    const { adapter } = cache;
    const object = this.#deps.validator.checkObject(adapter.kind, body, nameIn(cache, id));
    if (adapter.act !== undefined)
      return this.#actions.put({ adapter, object, verb: "replace", ctx, id }, once);
    return this.#change(once, ctx, (tx) =>
      writeObject(tx, this.#deps.clock.now(), { adapter, object, verb: "replace", ctx }),
    );
  }

  patch(
    kind: string,
    id: string,
    patch: unknown,
    ctx: RequestContext,
    once?: IdempotentRequest,
  ): Promise<WriteOutcome> {
    const cache = this.cache(kind);
    const { adapter } = cache;
    const name = nameIn(cache, id);
    if (!isObject(patch))
      throw new AppError("request.invalid", "a merge patch of an object must be a JSON object");
    const expected = isObject(patch["metadata"]) ? patch["metadata"]["resourceVersion"] : undefined;
    const object = (current: V1Object): CheckedObject => {
      const { status: _status, ...wanted } = mergePatch(current, patch) as Record<string, unknown>;
      if (isObject(patch["spec"])) {
        const spec =
          adapter.act?.patch?.(name, current.spec, patch["spec"]) ??
          adapter.write?.patch?.(current.spec, patch["spec"]);
        if (spec !== undefined) wanted["spec"] = spec;
      }
      const { resourceVersion: _version, ...metadata } = isObject(wanted["metadata"])
        ? wanted["metadata"]
        : {};
      const precondition = expected === undefined ? {} : { resourceVersion: expected };
      return this.#deps.validator.checkObject(
        adapter.kind,
        { ...wanted, metadata: { ...metadata, ...precondition } },
        name,
      );
    };
    const write: Write = { adapter, verb: "patch", ctx, id, object };
    if (adapter.act !== undefined) return this.#actions.put(write, once);
    return this.#change(once, ctx, (tx) => writeObject(tx, this.#deps.clock.now(), write));
  }

  remove(
    kind: string,
    id: string,
    {
      resourceVersion,
      force = false,
      called = id,
    }: {
      readonly resourceVersion?: string | undefined;
      readonly force?: boolean;
      /** What it was asked for by. */
      readonly called?: string | undefined;
    },
    ctx: RequestContext,
    once?: IdempotentRequest,
  ): Promise<WriteOutcome> {
    const { adapter } = this.cache(kind);
    const removal = { adapter, id, called, resourceVersion, force, ctx };
    if (adapter.act !== undefined) return this.#actions.remove(removal, once);
    return this.#change(once, ctx, (tx) => removeObject(tx, removal));
  }

  /** Permission before parameters: judged on what is there before the body is looked at. */
  async requireVerb(kind: string, verb: Verb, id: string, ctx: RequestContext): Promise<void> {
    const cache = this.cache(kind);
    await this.#deps.records.fresh({ signal: ctx.signal });
    // Who may not know about an object learns nothing from its absence either.
    const current = cache.get(id) ?? absentObject(cache.adapter.kind, id);
    requireMay(permissionOf(cache.adapter, verb), ctx, { current });
  }

  async #change(
    once: IdempotentRequest | undefined,
    ctx: RequestContext,
    change: (tx: Parameters<Parameters<Records["transact"]>[0]>[0]) => WriteOutcome,
  ): Promise<WriteOutcome> {
    const { records, idempotency } = this.#deps;
    const outcome = await records.transact(
      (tx) => {
        const stored = once === undefined ? undefined : idempotency.find(tx, once);
        if (stored !== undefined) return storedOutcome(stored);
        const made = change(tx);
        if (once !== undefined) idempotency.store(tx, once, made);
        return made;
      },
      { signal: ctx.signal },
    );
    await idempotency.sweep();
    if (outcome.replayed || outcome.deleted) return outcome;
    // The cache already shows the write, with the revision the store gave it.
    const { kind, metadata } = outcome.object;
    return { ...outcome, object: this.cache(kind).get(metadata.name) ?? outcome.object };
  }

  async #past(adapter: KindAdapter, revision: number, signal: AbortSignal): Promise<readonly V1Object[]> {
    const objects = await this.#deps.history(adapter, revision, signal);
    this.#snapshots.save(adapter.kind.kind, revision, objects);
    return objects;
  }
}

/** What the object with that id is called. */
function nameIn(cache: KindCache, id: string): string {
  return cache.get(id)?.metadata.name ?? id;
}

/** A verb that a kind does not declare is nobody's to use. */
export function permissionOf(adapter: KindAdapter, verb: Verb): V1Permission {
  const rule = adapter.kind.permissions[verb];
  if (rule === undefined) {
    throw new AppError("feature.unsupported", missingVerb(adapter.kind, verb));
  }
  return rule;
}

export function parseSelection(
  adapter: KindAdapter,
  query: { readonly labelSelector?: string | undefined; readonly fieldSelector?: string | undefined },
): Selection {
  return {
    labels: parseLabelSelector(query.labelSelector ?? ""),
    fields: parseFieldSelector(query.fieldSelector ?? "", [
      "metadata.name",
      ...adapter.kind.selectableFields,
    ]),
  };
}

export function selected(object: V1Object, selection: Selection): boolean {
  return (
    matches(selection.labels, (key) =>
      Object.hasOwn(object.metadata.labels, key) ? object.metadata.labels[key] : undefined,
    ) && matches(selection.fields, (field) => fieldText(object, field))
  );
}

/** What can be known of an object that is not there: its name, and what the name is made of. */
function absentObject(kind: KindDeclaration, name: string): unknown {
  const fields = kind.nameTemplate === undefined ? undefined : readTemplate(kind.nameTemplate, name);
  const spec = [...(fields ?? [])].map(([field, value]) => [field.replace(/^spec\./, ""), value] as const);
  return { metadata: { name }, spec: Object.fromEntries(spec) };
}

export function notFound(kind: string, name: string): AppError {
  return new AppError("object.not_found", `there is no ${kind} '${name}'`, { data: { kind, name } });
}
