// The cluster's mappings: create, change, remove, show, and check on a node.
import { alreadyThere, conflict, missing, refused } from "@gpve/domain/request/failures.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import { createHash } from "node:crypto";
import { isAppError } from "@gpve/contracts/errors.ts";
import {
  changedMapping,
  entriesOn,
  mappingCollection,
  mappingKey,
  newMapping,
  readEntry,
  type Mapping,
  type MappingOptions,
  type MappingType,
} from "@gpve/domain/mapping/mapping.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { refuseClaimed, type ClaimedPath } from "@gpve/domain/storage/protected-paths.ts";
import { ignore } from "@gpve/kit/background.ts";
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { prefixed } from "../access/prefixed.ts";

/** What is wrong with the entries of mappings on a node: a list for each mapping. */
export type CheckOnNode = (
  node: string,
  type: MappingType,
  mappings: readonly { readonly id: string; readonly map: readonly string[] }[],
  ctx: RequestContext,
  /** Only directories that no guest may have are faults. */
  options?: { readonly onlyPlace?: boolean },
) => Promise<readonly (readonly string[])[]>;

export interface MappingDeps {
  readonly records: Records;
  readonly localNode: string;
  readonly check: CheckOnNode;
  /** What no directory for guests may overlap, by its name alone. */
  readonly claimed: () => readonly ClaimedPath[];
}

type Shown = Readonly<Record<string, unknown>>;

const SEEN_WITH = ["Mapping.Modify", "Mapping.Use", "Mapping.Audit"];

export class Mappings {
  readonly #deps: MappingDeps;

  constructor(deps: MappingDeps) {
    this.#deps = deps;
  }

  /** With `checkNode` each has its faults on that node, under the name PVE gives the list for this type. */
  async list(type: MappingType, checkNode: string | undefined, ctx: RequestContext): Promise<Shown[]> {
    const visible = this.#all(type).filter(({ id }) =>
      ctx.access.has(`/mapping/${type}/${id}`, SEEN_WITH, "any"),
    );
    const digest = this.#digest(type);
    const rows = visible.map((mapping) => ({ ...shown(mapping), digest, id: mapping.id }));
    if (checkNode === undefined) return rows;
    const node = checkNode === "localhost" ? this.#deps.localNode : checkNode;
    const faults = await this.#deps.check(node, type, visible, ctx);
    return rows.map((row, at) => {
      const mapping = visible[at];
      const none = mapping === undefined || entriesOn(mapping, node).length === 0;
      const checks = [
        ...(none ? [{ severity: "warning", message: `No mapping for node ${node}.` }] : []),
        ...(faults[at] ?? []).map((text) => ({
          severity: "error",
          message: `Invalid configuration: ${text}\n`,
        })),
      ];
      return type === "usb" ? { ...row, errors: checks } : { ...row, checks };
    });
  }

  get(type: MappingType, id: string): Shown {
    const found = this.#deps.records.collection(mappingCollection).get(mappingKey(type, id));
    if (found === undefined) throw missing(`mapping '${id}' not found`);
    return { ...shown(found.value), digest: this.#digest(type) };
  }

  async create(type: MappingType, id: string, options: MappingOptions, ctx: RequestContext): Promise<null> {
    const mapping = newMapping(type, id, options);
    await this.#checkHere(mapping, ctx);
    await prefixed(`create ${noun(type)} mapping failed`, () =>
      this.#deps.records.transact((tx) => {
        const key = mappingKey(type, id);
        if (tx.get(mappingCollection, key) !== undefined)
          throw alreadyThere(`${type} ID '${id}' already defined`);
        tx.put(mappingCollection, key, mapping);
      }),
    );
    return null;
  }

  async update(
    type: MappingType,
    id: string,
    change: {
      readonly set: MappingOptions;
      readonly delete: string | undefined;
      readonly digest: string | undefined;
    },
    ctx: RequestContext,
  ): Promise<null> {
    await prefixed(`update ${noun(type)} mapping failed`, async () => {
      if (change.set.map !== undefined) await this.#checkHere(newMapping(type, id, change.set), ctx);
      await this.#deps.records.transact((tx) => {
        const key = mappingKey(type, id);
        const before = tx.get(mappingCollection, key)?.value;
        if (change.digest !== undefined) {
          const all = tx.list(mappingCollection).map(({ value }) => value);
          if (change.digest !== digestOf(all.filter((each) => each.type === type)))
            throw conflict("detected modified configuration - file changed by other user? Try again.");
        }
        if (before === undefined) throw missing(`${type} ID '${id}' does not exist`);
        const remove = (change.delete ?? "").split(/[,;\s]+/).filter((each) => each !== "");
        tx.put(mappingCollection, key, changedMapping(before, change.set, remove));
      });
    });
    return null;
  }

  /** One that is not there is no error, as in PVE. */
  async remove(type: MappingType, id: string): Promise<null> {
    await prefixed(`delete ${type} mapping failed`, () =>
      this.#deps.records.transact((tx) => {
        const key = mappingKey(type, id);
        if (tx.get(mappingCollection, key) !== undefined) tx.delete(mappingCollection, key);
      }),
    );
    return null;
  }

  /** Directories of the node that was asked must be there; devices may come later. */
  async #checkHere(mapping: Mapping, ctx: RequestContext): Promise<void> {
    const { localNode } = this.#deps;
    if (mapping.type !== "dir") return;
    const entries = mapping.map.map((text) => readEntry("dir", text));
    for (const { path = "" } of entries)
      refuseClaimed(`directory mapping '${mapping.id}'`, plain(path), this.#deps.claimed());
    for (const node of new Set(entries.map((entry) => entry.node))) {
      const [fault] = (await this.#faultsOn(node, mapping, ctx, node !== localNode)) ?? [];
      if (fault !== undefined) throw refused(fault);
    }
  }

  /** Another node that is not there now refuses the directory when a guest is to have it. */
  async #faultsOn(
    node: string,
    mapping: Mapping,
    ctx: RequestContext,
    isOther: boolean,
  ): Promise<readonly string[] | undefined> {
    try {
      return (await this.#deps.check(node, "dir", [mapping], ctx, { onlyPlace: isOther }))[0];
    } catch (err) {
      if (!isOther || isAppError(err, "access.denied")) throw err;
      ignore(err, "asked again when it is used");
      return undefined;
    }
  }

  #all(type: MappingType): Mapping[] {
    return valuesOf(this.#deps.records, mappingCollection).filter((each) => each.type === type);
  }

  #digest(type: MappingType): string {
    return digestOf(this.#all(type));
  }
}

function shown({ id: _id, mdev, "live-migration-capable": live, ...rest }: Mapping): Shown {
  return {
    ...rest,
    ...(mdev === undefined ? {} : { mdev: Number(mdev) }),
    ...(live === undefined ? {} : { "live-migration-capable": Number(live) }),
  };
}

function digestOf(mappings: readonly Mapping[]): string {
  return createHash("sha1").update(canonicalJson(mappings)).digest("hex");
}

function plain(path: string): string {
  return `/${path
    .split("/")
    .filter((part) => part !== "" && part !== ".")
    .join("/")}`;
}

function noun(type: MappingType): string {
  return type === "dir" ? "directory" : "hardware";
}
