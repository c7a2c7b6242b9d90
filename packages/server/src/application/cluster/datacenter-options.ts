// Datacenter options: stored as PVE writes them (property strings), shown parsed where PVE shows them parsed.
import { parameterError } from "@gpve/domain/request/failures.ts";
import {
  clusterCollection,
  DATACENTER_OPTIONS,
  datacenterOptions,
  type DatacenterOptions,
} from "@gpve/domain/cluster/datacenter-options.ts";
import { parsePropertyString, type PropertyRecord } from "@gpve/domain/schema/check.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import { shownProperties } from "@gpve/domain/schema/property-string.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import type { Records } from "@gpve/store/records/port.ts";

/** Of `user-tag-access`: the one list among the properties. */
const USER_TAGS = "user-allow-list";
const shownParsed = [
  "crs",
  "ha",
  "location",
  "migration",
  "next-id",
  "notify",
  "replication",
  "tag-style",
  "u2f",
  "user-tag-access",
  "webauthn",
];

export class DatacenterOptionsStore {
  readonly #records: Records;

  constructor(records: Records) {
    this.#records = records;
  }

  read(): DatacenterOptions {
    return datacenterOptions(this.#records);
  }

  /** As GET /cluster/options answers. */
  show(): Record<string, unknown> {
    const shown: Record<string, unknown> = {};
    for (const [key, value] of Object.entries(this.read())) {
      if (shownParsed.includes(key) && typeof value === "string") shown[key] = shownOption(key, value);
      else if (key === "registered-tags" && typeof value === "string") shown[key] = splitList(value);
      else shown[key] = value;
    }
    return shown;
  }

  async update(
    change: { readonly set: DatacenterOptions; readonly delete: readonly string[] },
    signal: AbortSignal,
  ): Promise<void> {
    const both = change.delete.find((key) => key in change.set);
    if (both !== undefined) {
      throw parameterError({ [both]: "unable to set and delete property at the same time!\n" });
    }
    const range = change.set["next-id"];
    if (typeof range === "string") checkNextIdRange(range);
    await this.#records.transact(
      (tx) => {
        const next = { ...tx.get(clusterCollection, DATACENTER_OPTIONS)?.value, ...change.set };
        for (const key of change.delete) delete next[key];
        tx.put(clusterCollection, DATACENTER_OPTIONS, next);
      },
      { signal },
    );
  }

  /** The range from which /cluster/nextid picks. */
  nextIdRange(): { lower: number; upper: number } {
    const value = this.read()["next-id"];
    const range = typeof value === "string" ? parsed("next-id", value) : {};
    return { lower: Number(range["lower"] ?? 100), upper: Number(range["upper"] ?? 1_000_000) };
  }
}

function checkNextIdRange(value: string): void {
  const { lower = 100, upper = 1_000_000 } = parsed("next-id", value) as { lower?: number; upper?: number };
  if (lower < upper) return;
  throw parameterError({ "next-id": `lower bound (${lower}) must be smaller than upper bound (${upper})` });
}

function shownOption(key: string, value: string): Record<string, unknown> {
  const { [USER_TAGS]: tags, ...rest } = shownProperties(parsed(key, value));
  return tags === undefined ? rest : { ...rest, [USER_TAGS]: splitList(String(tags)) };
}

function parsed(key: string, value: string): PropertyRecord {
  const schema = methodByKey("PUT /cluster/options")?.parameters[key]?.format;
  if (schema === undefined || typeof schema === "string") return {};
  const result = parsePropertyString(schema, value);
  return result.ok ? result.value : {};
}
