// Where what is on a node that is drained goes: guests where the scheduler would place them, as their rules and nodes' taints say.
import type { GpveClient } from "@gpve/client/client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Explained } from "../scheduler/verdicts.ts";

export interface DrainedGuest {
  readonly vmid: number;
  readonly name: string;
  readonly running: boolean;
  readonly memoryBytes: number;
}

interface Other {
  readonly name: string;
  readonly isOnline: boolean;
  readonly freeBytes: number;
}

type Verdict = NonNullable<Explained["verdicts"]>[number];

/** It refuses what is promised to others, whether they take it or not. */
const ROOM = "NodeResourcesFit";

/** The best of those that the scheduler and the guest's migration allow; never one that is cordoned itself. */
export async function nodeForGuest(client: GpveClient, node: string, guest: DrainedGuest): Promise<string> {
  const { vmid } = guest;
  const facts = await client.pve.get("/nodes/{node}/qemu/{vmid}/migrate", { node, vmid });
  const { now } = (await client.v1.raw("GET", `virtualmachines/${vmid}/placement`)) as { now?: Explained };
  const verdicts = now?.verdicts ?? [];
  const rank = ({ name }: Other): number => {
    const at = verdicts.findIndex((verdict) => verdict.node === name);
    return at < 0 ? verdicts.length : at;
  };
  const others = (await othersThan(client, node)).toSorted((a, b) => rank(a) - rank(b));
  const reasons: string[] = [];
  let lastResort: string | undefined;
  for (const other of others) {
    const { name } = other;
    const closed = whyNotMoved(facts, other) ?? (await whyClosed(client, name)).closed;
    const refusals = verdicts.find((verdict) => verdict.node === name)?.refusals ?? [];
    if (closed === undefined && refusals.length === 0) return name;
    if (closed === undefined && hasRoomAfterAll(refusals, other, guest)) lastResort ??= name;
    reasons.push(`${name}: ${closed ?? refusals.map(({ why }) => why).join(", ")}`);
  }
  return lastResort ?? nowhere(reasons);
}

/** For a part of a virtual cluster: of those that are open and not tainted, the one with most free memory. */
export async function nodeForPart(client: GpveClient, node: string): Promise<string> {
  const reasons: string[] = [];
  for (const other of await othersThan(client, node)) {
    const { closed, tainted } = other.isOnline
      ? await whyClosed(client, other.name)
      : { closed: NOT_ONLINE, tainted: undefined };
    const why = closed ?? tainted;
    if (why === undefined) return other.name;
    reasons.push(`${other.name}: ${why}`);
  }
  return nowhere(reasons);
}

const NOT_ONLINE = "it is not online";

/** Those with most free memory first. */
async function othersThan(client: GpveClient, node: string): Promise<readonly Other[]> {
  const rows = await client.pve.list("/nodes");
  return rows
    .filter((row) => row["node"] !== node)
    .map((row) => ({
      name: String(row["node"]),
      isOnline: row["status"] === "online",
      freeBytes: Number(row["maxmem"] ?? 0) - Number(row["mem"] ?? 0),
    }))
    .toSorted((a, b) => b.freeBytes - a.freeBytes);
}

function whyNotMoved(facts: unknown, { name, isOnline }: Other): string | undefined {
  if (!isOnline) return NOT_ONLINE;
  const { allowed_nodes: allowed, not_allowed_nodes: refused } = isObject(facts) ? facts : {};
  if (!Array.isArray(allowed) || allowed.includes(name)) return undefined;
  const why = isObject(refused) ? refused[name] : undefined;
  return isObject(why) && Array.isArray(why["reasons"]) ? why["reasons"].join(", ") : "it cannot have it";
}

async function whyClosed(
  client: GpveClient,
  name: string,
): Promise<{ readonly closed: string | undefined; readonly tainted: string | undefined }> {
  const { spec, status } = await client.v1.get("nodes", name);
  const taints: unknown = spec["taints"];
  const taint = Array.isArray(taints)
    ? taints.filter(isObject).find(({ effect }) => effect === "NoSchedule")
    : undefined;
  const cordoned = spec["unschedulable"] === true ? "it is cordoned" : undefined;
  return {
    closed: status["scheduling"] === "maintenance" ? "it is in maintenance" : cordoned,
    tainted: taint === undefined ? undefined : `it has the taint ${String(taint["key"])}`,
  };
}

/** Who does not run takes nothing, and memory may be free that is promised. */
function hasRoomAfterAll(
  refusals: Verdict["refusals"],
  { freeBytes }: Other,
  { running, memoryBytes }: DrainedGuest,
): boolean {
  return refusals.every(({ filter }) => filter === ROOM) && (!running || freeBytes >= memoryBytes);
}

function nowhere(reasons: readonly string[]): never {
  const all = reasons.length === 0 ? "there is none" : reasons.join("; ");
  throw new AppError("node.unavailable", `no other node can have it (${all})`);
}
