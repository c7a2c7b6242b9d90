// Servers with quotas over one store, and a node that makes guests as agents do: a record first, the rest later, and a
// task that ends. What it is told happens some time after, in any order, and may fail.
import { straight } from "./node-calls.ts";
import { decideAnything } from "@gpve/domain/access/testing/decided.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { AgentCall, AgentConnection, AgentReply } from "@gpve/domain/node/agent-port.ts";
import { FakeAgent } from "@gpve/domain/node/testing/fake-agent.ts";
import type { NodeReport } from "@gpve/domain/node/runtime.ts";
import { amountOf, type Amounts, type ResourceKey } from "@gpve/domain/quota/amounts.ts";
import { claimOf } from "@gpve/domain/quota/guest-demand.ts";
import type { Quota } from "@gpve/domain/quota/quota.ts";
import { recordOfTask, taskRecordId } from "@gpve/domain/task/task-record.ts";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import type { Store } from "@gpve/store/port.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { MemoryNodeBoard } from "../application/node/board.ts";
import { NodeCalls, type NodeCallsDeps, type Params } from "../application/node/call-agent.ts";
import { nodeRecords } from "../application/node/collections.ts";
import { keepGuestPools } from "../application/pool/guest-pools.ts";
import { quotasDef, reservationsDef } from "../application/quota/quota-records.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { composeQuotas, type Quotas } from "../compose-quota.ts";
import { joinedNode } from "./joined-node.ts";

const actor = { authid: "root@pam", userid: "root@pam" };

type OpenRecords = Awaited<ReturnType<typeof openRecords>>;

const NODE = joinedNode("n1");

export interface QuotaServer {
  readonly records: OpenRecords;
  readonly quotas: Quotas;
  readonly board: MemoryNodeBoard;
  call(route: string, params: Params, requestId: string): Promise<AgentReply>;
  close(): Promise<void>;
}

/** A store that is some way off: what one server decides, others see only later. */
export function distantStore(store: Store): Store {
  return new Proxy(store, {
    get: (target, name) => {
      const own: unknown = Reflect.get(target, name, target);
      if (name !== "txn") return typeof own === "function" ? (own.bind(target) as unknown) : own;
      return async (...args: Parameters<Store["txn"]>) => {
        await new Promise((resolve) => setTimeout(resolve, 2));
        return target.txn(...args);
      };
    },
  });
}

export async function openQuotaServer(
  store: Store,
  {
    owner,
    clock,
    node,
    divert = straight.divert,
  }: {
    readonly owner: string;
    readonly clock: Clock;
    readonly node: AgentConnection;
    readonly divert?: NodeCallsDeps["divert"];
  },
): Promise<QuotaServer> {
  const records = await openRecords(store, { prefix: "/gpve/", log: silentLogger });
  const board = new MemoryNodeBoard({ clock, nodes: records.collection(nodeRecords) });
  const quotas = composeQuotas({ records, board, clock, log: silentLogger, owner });
  const stopPools = keepGuestPools({ records, clock, log: silentLogger });
  const calls = new NodeCalls({
    agents: () => ({ connection: (name) => (name === node.node ? node : undefined) }),
    localNode: node.node,
    decide: decideAnything,
    gate: quotas.gate,
    divert,
  });
  const access = { has: () => true, require: () => undefined, privileges: () => new Map() };
  return {
    records,
    quotas,
    board,
    call: (route, params, requestId) =>
      calls.call(
        node.node,
        route as never,
        params as never,
        {
          actor,
          access,
          requestId,
          clientAddress: "127.0.0.1",
          signal: new AbortController().signal,
        } as never,
      ),
    close: async () => {
      quotas.stop();
      stopPools();
      await records.close();
    },
  };
}

/** Makes guests as it is told, each some time later. */
export class SlowNode extends FakeAgent {
  readonly #records: OpenRecords;
  readonly #random: () => number;
  readonly #work = new Set<Promise<void>>();
  #tasks = 0;

  constructor(records: OpenRecords, random: () => number) {
    super();
    this.#records = records;
    this.#random = random;
    this.answer = (call) => this.#answer(call);
  }

  async #answer({ decision, params, requestId }: AgentCall): Promise<AgentReply> {
    await this.#while();
    if (this.#random() < 0.05) throw new Error("the connection broke before anything was done");
    const made = Number(decision.route.endsWith("/clone") ? params["newid"] : params["vmid"]);
    const upid = this.#upid(String(params["vmid"]));
    await this.#note(upid);
    const work = this.#make(made, requestId, params, upid).finally(() => this.#work.delete(work));
    this.#work.add(work);
    return { data: upid };
  }

  async idle(): Promise<void> {
    await Promise.all(this.#work);
  }

  async #make(vmid: number, madeBy: string, params: Params, upid: string): Promise<void> {
    const { pool } = params;
    const id = String(vmid);
    const record = (conf: string) =>
      guestRecord({
        vmid,
        type: "qemu",
        node: this.node,
        madeBy,
        conf,
        ...(typeof pool === "string" ? { wantedPool: pool } : {}),
      });
    await this.#while();
    const isFree = await this.#records.transact((tx) => {
      if (tx.get(guestCollection, id) !== undefined) return false;
      tx.put(guestCollection, id, record("lock: create\n"));
      return true;
    });
    await this.#while();
    const isGood = isFree && this.#random() > 0.1;
    const disk = `scsi0: local:${id}/vm-${id}-disk-0.raw,size=1G`;
    if (isFree)
      await this.#records.transact((tx) => {
        const now = tx.get(guestCollection, id)?.value;
        if (now === undefined) return;
        if (isGood) tx.put(guestCollection, id, { ...now, conf: `cores: 2\nmemory: 256\n${disk}\n` });
        else tx.delete(guestCollection, id);
      });
    await this.#while();
    await this.#note(upid, isGood ? "OK" : "failed");
  }

  async #note(upid: string, exitstatus?: string): Promise<void> {
    const id = taskRecordId(upid) ?? "";
    const end = exitstatus === undefined ? undefined : { endtime: Math.floor(Date.now() / 1000), exitstatus };
    const task = taskFromUpid(upid, end);
    if (task === undefined) throw new Error(`${upid} is no UPID`);
    await this.#records.transact((tx) => tx.put(taskRecords, id, recordOfTask(task)));
  }

  #upid(id: string): string {
    const hex = (value: number, digits = 8) => value.toString(16).toUpperCase().padStart(digits, "0");
    const start = hex(Math.floor(Date.now() / 1000));
    return `UPID:${this.node}:${hex(++this.#tasks)}:${hex(1)}:${start}:qmcreate:${id}:root@pam:`;
  }

  #while(): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, this.#random() * 20));
  }
}

export async function putTenants(
  records: OpenRecords,
  quotas: readonly Quota[],
  pools: readonly string[],
): Promise<void> {
  await records.transact((tx) => {
    for (const poolid of pools) tx.put(poolsDef, poolid, { poolid, vms: [], storage: [] });
    for (const quota of quotas) tx.put(quotasDef, quota.name, quota);
    tx.put(nodeRecords, "n1", NODE);
  });
}

/** What is there, by records alone. */
export function existing(records: OpenRecords, tenant: string): Amounts {
  const sums: Partial<Record<ResourceKey, number>> = {};
  const pools = records.collection(poolsDef).list();
  for (const { value: guest } of records.collection(guestCollection).list()) {
    const pool = guest.wantedPool ?? pools.find(({ value }) => value.vms.includes(guest.vmid))?.id ?? "";
    if (pool !== tenant && !pool.startsWith(`${tenant}/`)) continue;
    const { demand } = claimOf(guest);
    for (const key of Object.keys(demand) as ResourceKey[])
      sums[key] = (sums[key] ?? 0) + amountOf(demand, key);
  }
  return sums;
}

export function openReservations(records: OpenRecords): number {
  return records.collection(reservationsDef).list().length;
}

export function reportOf(guests: readonly { vmid: number; status: string }[], at: number): NodeReport {
  return { node: "n1", at, guests, storages: [] } as unknown as NodeReport;
}
