// What a request says of the nodes that a cluster goes to, in the words that guests have for it.
import { given } from "@gpve/contracts/given.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { vcSchedulingFields } from "@gpve/contracts/v1/scheduling.ts";
import type { SchedulingRules } from "../scheduler/model.ts";
import { readRules } from "../scheduler/read-rules.ts";

const FIELDS = new Set(Object.keys(vcSchedulingFields));

export interface ClusterScheduling {
  /** Its workers are dealt out to several nodes; absent: all are where its control plane is. */
  readonly spread?: boolean;
  /** By which the scheduler chooses; absent: as for whatever says nothing. */
  readonly rules?: SchedulingRules;
}

export function readClusterScheduling(scheduling: Fields): ClusterScheduling {
  const said = Object.entries(scheduling).filter(([name]) => FIELDS.has(name));
  const rules = readRules(Object.fromEntries(said));
  return {
    ...(scheduling["spread"] === true ? { spread: true } : {}),
    ...given({ rules }),
  };
}

/** As /api/v1 shows it; undefined: nothing is said. */
export function shownClusterScheduling({ spread, rules }: ClusterScheduling): Fields | undefined {
  const shown = { ...rules, ...(spread === true ? { spread } : {}) };
  return Object.keys(shown).length === 0 ? undefined : shown;
}
