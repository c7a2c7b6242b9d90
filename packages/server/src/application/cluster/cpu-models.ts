// CPU models of the cluster: create, change, remove, show.
import { alreadyThere, conflict, missing, parameterError } from "@gpve/domain/request/failures.ts";
import { createHash } from "node:crypto";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { CustomCpuModel } from "@gpve/domain/vm/argv/host-facts.ts";
import { cpuModelCollection, cpuModelName, cpuTypeOf } from "@gpve/domain/vm/host/custom-cpu-model.ts";
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import type { Entry, Records } from "@gpve/store/records/port.ts";

export type CpuModelOptions = CustomCpuModel;

const SEE = ["Mapping.Audit", "Mapping.Use", "Mapping.Modify"];
const OPTIONS = [
  "flags",
  "guest-phys-bits",
  "hidden",
  "hv-vendor-id",
  "level",
  "phys-bits",
  "reported-model",
];

export class CpuModels {
  readonly #records: Records;

  constructor(records: Records) {
    this.#records = records;
  }

  /** Those the caller may know of. */
  list(ctx: RequestContext): Record<string, unknown>[] {
    const entries = this.#entries();
    const digest = digestOf(entries);
    return entries
      .filter(({ id }) => ctx.access.has(`/mapping/cpu/${id}`, SEE, "any"))
      .map(({ id, value }) => ({ ...value, cputype: cpuTypeOf(id), digest }));
  }

  get(cputype: string): Record<string, unknown> {
    const name = cpuModelName(cputype);
    const entry = this.#records.collection(cpuModelCollection).get(name);
    if (entry === undefined) throw noSuchModel(name);
    return { ...entry.value, cputype: cpuTypeOf(name), digest: digestOf(this.#entries()) };
  }

  async create(cputype: string, options: CpuModelOptions): Promise<void> {
    const name = cpuModelName(cputype);
    await this.#records.transact((tx) => {
      if (tx.get(cpuModelCollection, name) !== undefined)
        throw alreadyThere(`custom CPU model '${name}' already exists\n`);
      tx.put(cpuModelCollection, name, options);
    });
  }

  async update(
    cputype: string,
    set: CpuModelOptions,
    remove: readonly string[],
    digest: string | undefined,
  ): Promise<void> {
    const name = cpuModelName(cputype);
    const unknown = remove.find((key) => !OPTIONS.includes(key));
    if (unknown !== undefined) throw parameterError({ delete: `unknown option '${unknown}'` });
    if (remove.includes("reported-model"))
      throw parameterError({ delete: "unable to delete required option 'reported-model'" });
    await this.#records.transact((tx) => {
      const entries = tx.list(cpuModelCollection);
      if (digest !== undefined && digest !== digestOf(entries))
        throw conflict("detected modified configuration - file changed by other user? Try again.\n");
      const before = tx.get(cpuModelCollection, name)?.value;
      if (before === undefined) throw noSuchModel(name);
      const kept = Object.fromEntries(Object.entries(before).filter(([key]) => !remove.includes(key)));
      tx.put(cpuModelCollection, name, { ...kept, ...set });
    });
  }

  async remove(cputype: string): Promise<void> {
    const name = cpuModelName(cputype);
    await this.#records.transact((tx) => {
      if (tx.get(cpuModelCollection, name) === undefined) throw noSuchModel(name);
      tx.delete(cpuModelCollection, name);
    });
  }

  #entries(): readonly Entry<CustomCpuModel>[] {
    return this.#records.collection(cpuModelCollection).list();
  }
}

function digestOf(entries: readonly Entry<CustomCpuModel>[]): string {
  const text = canonicalJson(entries.map(({ id, value }) => ({ id, ...value })));
  return createHash("sha1").update(text).digest("hex");
}

function noSuchModel(name: string): Error {
  return missing(`Custom cputype '${name}' not found\n`);
}
