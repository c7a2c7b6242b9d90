// What operators configure of HA: resources, rules, groups, and commands to the manager. In PVE's words.
import { given } from "@gpve/contracts/given.ts";
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import {
  commandCollection,
  groupCollection,
  isInMaintenance,
  MANAGER_STATUS_ID,
  managerCollection,
  parseSid,
  resourceCollection,
  ruleCollection,
  serviceState,
  sidOf,
  vmidOfSid,
  type HaCommand,
  type HaGroup,
  type HaResource,
} from "@gpve/domain/ha/collections.ts";
import type { ManagerStatus, WantedState } from "@gpve/domain/ha/model.ts";
import { whyNotOn } from "@gpve/domain/ha/movable.ts";
import { alreadyThere, conflict, missing, parameterError, refused } from "@gpve/domain/request/failures.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { CollectionDef, Records, Tx } from "@gpve/store/records/port.ts";
import { prefixed } from "../access/prefixed.ts";
import { digestOf, requireDigestOf } from "../digest.ts";

export interface HaConfigDeps {
  readonly records: Records;
  readonly clock: Clock;
  readonly knowsNode: (node: string) => boolean;
  /** Its agent has not been heard of for a while. */
  readonly isOffline: (node: string) => boolean;
}

export interface HaResourceOptions {
  readonly state?: WantedState | "enabled" | undefined;
  readonly group?: string | undefined;
  readonly max_restart?: number | undefined;
  readonly max_relocate?: number | undefined;
  readonly failback?: boolean | undefined;
  readonly "auto-rebalance"?: boolean | undefined;
  readonly comment?: string | undefined;
}

export interface GroupOptions {
  readonly nodes?: string | undefined;
  readonly restricted?: boolean | undefined;
  readonly nofailback?: boolean | undefined;
  readonly comment?: string | undefined;
}

export interface HaChange {
  readonly remove: readonly string[];
  readonly digest: string | undefined;
}

const ONE = 1;
/** What may be absent of a resource, and of a group. */
const OPTIONAL = ["state", "group", "max_restart", "max_relocate", "failback", "auto-rebalance", "comment"];
const OPTIONAL_OF_GROUP = ["restricted", "nofailback", "comment"];
const digested = { resources: resourceCollection, rules: ruleCollection, groups: groupCollection };

export class HaConfig {
  readonly #deps: HaConfigDeps;

  constructor(deps: HaConfigDeps) {
    this.#deps = deps;
  }

  resources(type?: "vm" | "ct"): readonly HaResource[] {
    return this.#all(resourceCollection).filter(
      ({ sid }) => type === undefined || sid.startsWith(`${type}:`),
    );
  }

  /** A number alone is the guest that has it, of whichever kind. */
  sid(text: string): string {
    if (!/^\d+$/.test(text)) return parseSid(text).sid;
    const guest = this.#deps.records.collection(guestCollection).get(text)?.value;
    if (guest === undefined) throw missing(`unable do detect SID from VMID - VM/CT ${text} does not exist`);
    return sidOf(guest);
  }

  resource(text: string): HaResource {
    const sid = this.sid(text);
    const found = this.#deps.records.collection(resourceCollection).get(sid)?.value;
    if (found === undefined) throw missing(`no such resource '${sid}'`);
    return found;
  }

  find(guest: Pick<GuestRecord, "vmid" | "type">): HaResource | undefined {
    return this.#deps.records.collection(resourceCollection).get(sidOf(guest))?.value;
  }

  /** Of all resources: whoever changes one by what he saw names it. */
  digest(of: keyof typeof digested = "resources"): string {
    return digestOf(this.#all<unknown>(digested[of]));
  }

  async addResource(text: string, type: string | undefined, options: HaResourceOptions): Promise<void> {
    const sid = this.sid(text);
    const { vmid } = parseSid(sid);
    const guest = this.#deps.records.collection(guestCollection).get(String(vmid))?.value;
    if (guest === undefined) throw missing(`resource '${sid}' does not exists in cluster`);
    const real = sidOf(guest);
    if (sid !== real) throw refused(`cannot add '${sid}' to HA: guest ${vmid} is '${real}'`);
    if (type !== undefined && !sid.startsWith(`${type}:`)) throw refused("types does not match");
    if (guest.summary.template) throw refused(`cannot add '${sid}' to HA: it is a template`);
    const plain = { sid, state: "started", maxRestart: ONE, maxRelocate: ONE, failback: true } as const;
    await prefixed("create resource failed", () =>
      this.#deps.records.transact((tx) => {
        if (tx.get(resourceCollection, sid) !== undefined)
          throw alreadyThere(`resource ID '${sid}' already defined`);
        tx.put(resourceCollection, sid, this.#changed(tx, { ...plain, autoRebalance: true }, options, []));
      }),
    );
  }

  /** `order`: told to the manager in one with it, which else might begin the one without the other. */
  async setResource(
    text: string,
    options: HaResourceOptions,
    { remove, digest, order }: HaChange & { readonly order?: HaCommand | undefined },
  ): Promise<void> {
    const sid = this.sid(text);
    this.#requireNoError(sid, options.state);
    await prefixed("update resources config failed", () =>
      this.#deps.records.transact((tx) => {
        requireDigest(tx, digest, "resources");
        const before = tx.get(resourceCollection, sid)?.value;
        if (before === undefined) throw missing(`no such resource '${sid}'`);
        requireRemovable(remove, OPTIONAL);
        tx.put(resourceCollection, sid, this.#changed(tx, before, options, remove));
        if (order !== undefined) this.#order(tx, order);
      }),
    );
  }

  /** `purge`: rules forget it too. */
  async removeResource(text: string, purge: boolean): Promise<void> {
    const sid = this.sid(text);
    await this.#deps.records.transact((tx) => {
      if (tx.get(resourceCollection, sid) === undefined)
        throw missing(`cannot delete service '${sid}', not HA managed!`);
      tx.delete(resourceCollection, sid);
      if (purge) removeFromRules(tx, sid);
    });
  }

  groups(): readonly HaGroup[] {
    return this.#all(groupCollection);
  }

  group(name: string): HaGroup {
    const found = this.#deps.records.collection(groupCollection).get(name)?.value;
    if (found === undefined) throw missing(`no such ha group '${name}'`);
    return found;
  }

  async addGroup(group: HaGroup): Promise<void> {
    this.requireNodes(group.nodes);
    await prefixed("create ha group failed", () =>
      this.#deps.records.transact((tx) => {
        if (tx.get(groupCollection, group.group) !== undefined)
          throw alreadyThere(`ha group ID '${group.group}' already defined`);
        tx.put(groupCollection, group.group, group);
      }),
    );
  }

  async setGroup(name: string, options: GroupOptions, { remove, digest }: HaChange): Promise<void> {
    if (options.nodes !== undefined) this.requireNodes(options.nodes);
    await prefixed("update ha group failed", () =>
      this.#deps.records.transact((tx) => {
        requireDigest(tx, digest, "groups");
        const before = tx.get(groupCollection, name)?.value;
        if (before === undefined) throw missing(`no such ha group '${name}'`);
        requireRemovable(remove, OPTIONAL_OF_GROUP, ["nodes"]);
        const kept = Object.entries(before).filter(([key]) => !remove.includes(key));
        const plain = { ...before, restricted: false, nofailback: false, comment: undefined };
        const set = given(without(options, remove));
        const { comment, ...after } = { ...plain, ...Object.fromEntries(kept), ...set };
        tx.put(groupCollection, name, { ...after, ...given({ comment }) });
      }),
    );
  }

  /** One that is not there is gone already, as with PVE. */
  async removeGroup(name: string): Promise<void> {
    await prefixed("delete ha group failed", () =>
      this.#deps.records.transact((tx) => {
        const user = tx.list(resourceCollection).find(({ value }) => value.group === name)?.value.sid;
        if (user !== undefined) throw refused(`ha group is used by service '${user}'`);
        if (tx.has(groupCollection, name)) tx.delete(groupCollection, name);
      }),
    );
  }

  /** A line for the manager, which reads it in its next round. */
  async command(line: string, by: string): Promise<void> {
    await this.#deps.records.transact((tx) => this.#order(tx, { line, by }));
  }

  /** While it is on, guests under HA leave the node and none comes. */
  async maintenance(node: string, enabled: boolean, by: string): Promise<void> {
    if (!this.#deps.knowsNode(node)) throw missing(`no such cluster node '${node}'`);
    // The manager would only log it.
    if (enabled && this.#deps.isOffline(node))
      throw conflict(`node '${node}' is not online: what it had under HA is recovered, not moved`);
    await this.command(`${enabled ? "enable" : "disable"}-node-maintenance ${node}`, by);
  }

  requireNode(node: string): void {
    if (!this.#deps.knowsNode(node)) throw parameterError({ node: `no such cluster node '${node}'` });
  }

  /** "n1:2,n2" */
  requireNodes(nodes: string): void {
    const names = splitList(nodes).map((entry) => entry.split(":")[0] ?? "");
    const strange = names.filter((node) => !this.#deps.knowsNode(node)).toSorted();
    if (strange.length > 0) throw refused(`cannot use non-existant node(s) ${strange.join(", ")}.`);
  }

  /** Before it is asked to move. */
  requireManaged(sid: string): void {
    const state = this.#deps.records.collection(resourceCollection).get(sid)?.value.state;
    if (state === undefined || state === "ignored") throw refused(`resource '${sid}' is not HA managed`);
    this.#requireNoError(sid);
    this.requireArmed(sid);
  }

  isOn(sid: string, node: string): boolean {
    const guest = this.#deps.records.collection(guestCollection).get(String(vmidOfSid(sid)))?.value;
    return guest?.node === node;
  }

  /** Whoever is sent where the manager sends nobody would stay where it is, and only the manager's log would say so. */
  requireTaker(sid: string, node: string): void {
    this.requireNode(node);
    if (this.#deps.isOffline(node)) throw conflict(`cannot move '${sid}': node '${node}' is not online`);
    const why = this.whyClosed(sid, node);
    if (why !== undefined) throw conflict(why);
  }

  /** What keeps a guest from a node because it is under HA; all others may go there. */
  whyClosed(sid: string, node: string): string | undefined {
    const { records } = this.#deps;
    const wanted = records.collection(resourceCollection).get(sid)?.value.state;
    if (wanted === undefined || wanted === "ignored") return undefined;
    if (isInMaintenance(node, records.collection(managerCollection)))
      return `node '${node}' is in maintenance and takes no guests under HA before that is over (gpvectl ha maintenance off ${node})`;
    const guest = records.collection(guestCollection).get(String(vmidOfSid(sid)))?.value;
    if (guest === undefined || guest.node === node || this.#disarm()?.mode === "ignore") return undefined;
    // Its node would refuse the manager's order, and only logs would say so.
    const tied = whyNotOn(guest, valuesOf(records, storageCollection), node);
    return tied === undefined ? undefined : `HA does not move '${sid}' to node '${node}': ${tied}`;
  }

  /** What is asked for meanwhile would be forgotten when services go on. */
  requireArmed(sid: string): void {
    if (this.#disarm() !== undefined)
      throw conflict(`HA is disarmed and does not move '${sid}': arm it first (gpvectl ha arm)`);
  }

  #order(tx: Tx, order: HaCommand): void {
    const at = String(this.#deps.clock.now()).padStart(15, "0");
    let count = 0;
    while (tx.has(commandCollection, `${at}-${count}`)) count++;
    tx.put(commandCollection, `${at}-${count}`, order);
  }

  #disarm(): ManagerStatus["disarm"] {
    return this.#deps.records.collection(managerCollection).get(MANAGER_STATUS_ID)?.value.disarm;
  }

  /** One that failed wants to be looked at, and disabled, before anything else is asked of it. */
  #requireNoError(sid: string, wanted?: HaResourceOptions["state"]): void {
    const { records } = this.#deps;
    const resources = records.collection(resourceCollection);
    if (wanted === "disabled" || resources.get(sid)?.value.state === "ignored") return;
    if (serviceState(sid, { resources, manager: records.collection(managerCollection) }) === "error")
      throw refused(`service '${sid}' in error state, must be disabled and fixed first`);
  }

  #changed(tx: Tx, before: HaResource, asked: HaResourceOptions, remove: readonly string[]): HaResource {
    const options = without(asked, remove);
    const { group, comment } = options;
    if (group !== undefined && tx.get(groupCollection, group) === undefined)
      throw refused(`HA group '${group}' does not exist`);
    const kept = (key: string): boolean => !remove.includes(key);
    const state = options.state === "enabled" ? "started" : options.state;
    return {
      sid: before.sid,
      state: state ?? (kept("state") ? before.state : "started"),
      maxRestart: options.max_restart ?? (kept("max_restart") ? before.maxRestart : ONE),
      maxRelocate: options.max_relocate ?? (kept("max_relocate") ? before.maxRelocate : ONE),
      failback: options.failback ?? (kept("failback") ? before.failback : true),
      autoRebalance: options["auto-rebalance"] ?? (kept("auto-rebalance") ? before.autoRebalance : true),
      ...given({
        group: group ?? (kept("group") ? before.group : undefined),
        comment: comment ?? (kept("comment") ? before.comment : undefined),
      }),
    };
  }

  #all<T>(def: CollectionDef<T>): readonly T[] {
    return valuesOf(this.#deps.records, def);
  }
}

/** PVE sets and then deletes: what `delete` names is gone, whatever else the request says of it. */
function without<T extends object>(options: T, remove: readonly string[]): Partial<T> {
  return Object.fromEntries(Object.entries(options).filter(([key]) => !remove.includes(key))) as Partial<T>;
}

/** PVE's texts for what `delete` names. */
export function requireRemovable(
  remove: readonly string[],
  optional: readonly string[],
  required: readonly string[] = [],
): void {
  for (const key of remove) {
    if (required.includes(key)) throw refused(`unable to delete required option '${key}'`);
    if (!optional.includes(key)) throw refused(`no such option '${key}'`);
  }
}

export function requireDigest(tx: Tx, digest: string | undefined, of: keyof typeof digested): void {
  requireDigestOf(
    tx.list<unknown>(digested[of]).map(({ value }) => value),
    digest,
  );
}

/** Of a guest that is gone: the next one with its id is not under HA by that. */
export function removeGuestFromHa(tx: Tx, vmid: number): void {
  for (const sid of [`vm:${vmid}`, `ct:${vmid}`]) {
    if (tx.get(resourceCollection, sid) === undefined) continue;
    tx.delete(resourceCollection, sid);
    removeFromRules(tx, sid);
  }
}

function removeFromRules(tx: Tx, sid: string): void {
  for (const { id, value } of tx.list(ruleCollection)) {
    if (!value.resources.includes(sid)) continue;
    const resources = value.resources.filter((each) => each !== sid);
    if (resources.length === 0) tx.delete(ruleCollection, id);
    else tx.put(ruleCollection, id, { ...value, resources });
  }
}
