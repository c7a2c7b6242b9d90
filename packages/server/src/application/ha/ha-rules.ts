// Rules of where resources may be, refused where they contradict others: one that is stored is one that holds.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import {
  groupCollection,
  managerCollection,
  MANAGER_STATUS_ID,
  resourceCollection,
  ruleCollection,
  type HaRuleRecord,
} from "@gpve/domain/ha/collections.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import { compileRules, crowdedApart, type Crowded } from "@gpve/domain/ha/compile-rules.ts";
import { rulesOf } from "@gpve/domain/ha/services-view.ts";
import { staysOn } from "@gpve/domain/ha/usage.ts";
import type { BlockedBy, MoveEffects } from "@gpve/domain/vm/migrate/movable.ts";
import { alreadyThere, missing, refused } from "@gpve/domain/request/failures.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { prefixed } from "../access/prefixed.ts";
import { requireDigest, requireRemovable, type HaChange, type HaConfig } from "./ha-config.ts";

export interface RuleOptions {
  readonly resources?: string | undefined;
  readonly nodes?: string | undefined;
  readonly strict?: boolean | undefined;
  readonly affinity?: "positive" | "negative" | undefined;
  readonly disable?: boolean | undefined;
  readonly comment?: string | undefined;
}

/** What rules of a kind have, must have, and what only the other kind has. */
const propertiesOf = {
  "node-affinity": { required: ["resources", "nodes"], optional: ["strict", "disable", "comment"] },
  "resource-affinity": { required: ["resources", "affinity"], optional: ["disable", "comment"] },
} as const satisfies Record<HaRuleRecord["type"], Record<string, readonly (keyof RuleOptions)[]>>;
const foreignTo = {
  "node-affinity": ["affinity"],
  "resource-affinity": ["nodes", "strict"],
} as const satisfies Record<HaRuleRecord["type"], readonly (keyof RuleOptions)[]>;

export class HaRules {
  readonly #records: Records;
  readonly #config: HaConfig;
  readonly #nodes: () => readonly string[];

  constructor(records: Records, config: HaConfig, nodes: () => readonly string[]) {
    this.#records = records;
    this.#config = config;
    this.#nodes = nodes;
  }

  list(filter: { readonly type?: string | undefined; readonly resource?: string | undefined } = {}) {
    const { type: wanted, resource } = filter;
    const isMeant = (sid: string): boolean => sid === resource || sid.endsWith(`:${resource}`);
    return this.#all().filter(
      ({ type, resources }) =>
        (wanted === undefined || wanted === type) && (resource === undefined || resources.some(isMeant)),
    );
  }

  get(rule: string): HaRuleRecord {
    const found = this.#records.collection(ruleCollection).get(rule)?.value;
    if (found === undefined) throw missing(`no such ha rule '${rule}'`);
    return found;
  }

  /** Rules that contradict others since nodes or resources went, or by groups, are not followed: why, by name. */
  faults(): ReadonlyMap<string, string> {
    const rules = rulesOf(this.#all(), this.#config.groups(), this.#config.resources());
    return new Map(compileRules(rules, this.#nodes()).dropped.map(({ id, reason }) => [id, reason]));
  }

  async add(rule: string, type: HaRuleRecord["type"], options: RuleOptions): Promise<void> {
    const fresh = this.#changed({ rule, type, resources: [], order: 0 }, options, []);
    await prefixed("create ha rule failed", () =>
      this.#records.transact((tx) => {
        const all = tx.list(ruleCollection).map(({ value }) => value);
        if (all.some((each) => each.rule === rule)) throw alreadyThere(`HA rule '${rule}' already defined`);
        const order = Math.max(0, ...all.map((each) => each.order)) + 1;
        this.#requireSound(tx, fresh, all);
        tx.put(ruleCollection, rule, { ...fresh, order });
      }),
    );
  }

  async set(rule: string, type: string, options: RuleOptions, { remove, digest }: HaChange): Promise<void> {
    await prefixed("update HA rules failed", () =>
      this.#records.transact((tx) => {
        requireDigest(tx, digest, "rules");
        const all = tx.list(ruleCollection).map(({ value }) => value);
        const before = all.find((each) => each.rule === rule);
        if (before === undefined) throw missing(`HA rule '${rule}' does not exist`);
        if (before.type !== type)
          throw refused(`cannot change type of rule '${rule}' from ${before.type} to ${type}`);
        const after = this.#changed(before, options, remove);
        const others = all.filter((each) => each !== before);
        this.#requireSound(tx, after, others);
        tx.put(ruleCollection, rule, after);
      }),
    );
  }

  /** One that is not there is gone already, as with PVE. */
  async remove(rule: string): Promise<void> {
    await this.#records.transact((tx) => {
      if (tx.has(ruleCollection, rule)) tx.delete(ruleCollection, rule);
    });
  }

  /** Who would go along with a resource, who keeps it from going, and what else does. */
  effectsOf(sid: string, target: string): MoveEffects {
    const resources = this.#config.resources();
    const compiled = compileRules(rulesOf(this.#all(), this.#config.groups(), resources), this.#nodes());
    const services = this.#records.collection(managerCollection).get(MANAGER_STATUS_ID)?.value.services ?? {};
    const isThere = (other: string): boolean => {
      const service = services[other];
      return service !== undefined && staysOn(service, target);
    };
    const home = compiled.nodeAffinity.get(sid);
    const blocking: BlockedBy[] = [...(compiled.apart.get(sid) ?? [])]
      .filter(isThere)
      .map((other) => ({ sid: other, cause: "resource-affinity" }));
    if (home?.strict === true && !home.nodes.has(target)) blocking.push({ sid, cause: "node-affinity" });
    const closed = this.#config.whyClosed(sid, target);
    return { together: [...(compiled.together.get(sid) ?? [])].toSorted(), blocking, ...given({ closed }) };
  }

  #changed(before: HaRuleRecord, options: RuleOptions, remove: readonly string[]): HaRuleRecord {
    const { nodes, strict, affinity, disable, comment, resources } = options;
    const strange = foreignTo[before.type].find((key) => options[key] !== undefined);
    if (strange !== undefined) throw refused(`unexpected property '${strange}'`);
    const { required, optional } = propertiesOf[before.type];
    requireRemovable(remove, optional, required);
    const both = remove.find((key) => options[key as keyof RuleOptions] !== undefined);
    if (both !== undefined) throw refused(`cannot set and delete property '${both}' at the same time!`);
    const kept = <K extends keyof HaRuleRecord>(key: K): HaRuleRecord[K] | undefined =>
      remove.includes(key) ? undefined : before[key];
    const after: HaRuleRecord = {
      rule: before.rule,
      type: before.type,
      order: before.order,
      resources: resources === undefined ? before.resources : this.#sids(resources),
      ...given({
        nodes: nodes ?? before.nodes,
        strict: strict ?? kept("strict"),
        affinity: affinity ?? before.affinity,
        disable: disable ?? kept("disable"),
        comment: comment ?? kept("comment"),
      }),
    };
    const missed = required.find((key) => after[key] === undefined);
    if (missed !== undefined) throw refused(`missing value for required option '${missed}'`);
    return after;
  }

  /** Each once: who is named twice is one resource. */
  #sids(resources: string): readonly string[] {
    return [...new Set(splitList(resources).map((each) => this.#config.sid(each)))].toSorted();
  }

  /** With PVE's words for what speaks against it. */
  #requireSound(tx: Tx, rule: HaRuleRecord, others: readonly HaRuleRecord[]): void {
    const known = tx.list(resourceCollection).map(({ value }) => value);
    const strangers = rule.resources.filter((sid) => !known.some((each) => each.sid === sid));
    if (strangers.length > 0) throw refused(`cannot use unmanaged resource(s) ${strangers.join(", ")}.`);
    if (rule.nodes !== undefined) this.#config.requireNodes(rule.nodes);
    if (rule.disable === true) return;
    const groups = tx.list(groupCollection).map(({ value }) => value);
    const rules = rulesOf([...others, rule], groups, known);
    const { dropped } = compileRules(rules, this.#nodes());
    const why =
      dropped.find(({ id }) => id === rule.rule)?.reason ??
      // What does not fit without it either is not its fault: a node may have been removed.
      (crowdedApart(rulesOf(others, groups, known), this.#nodes()) === undefined
        ? crowdedText(crowdedApart(rules, this.#nodes()))
        : undefined);
    if (why !== undefined)
      throw new AppError("request.invalid", `Rule '${rule.rule}' is invalid.`, {
        errors: { resources: why },
      });
  }

  #all(): readonly HaRuleRecord[] {
    return valuesOf(this.#records, ruleCollection).toSorted((a, b) => a.order - b.order);
  }
}

function crowdedText(crowded: Crowded | undefined): string | undefined {
  if (crowded === undefined) return undefined;
  const { resources, nodes } = crowded;
  return `${resources.join(", ")} must be apart, and rules that are strict leave them ${nodes.join(", ") || "no node"}`;
}
