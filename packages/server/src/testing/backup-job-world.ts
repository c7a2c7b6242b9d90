// Backup jobs on a store in memory, with two nodes whose agents only note what they are asked.
import { nodeCalls } from "./node-calls.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { AgentCall, AgentDirectory } from "@gpve/domain/node/agent-port.ts";
import type { NodeBoard, NodeHealth, NodeView } from "@gpve/domain/node/runtime.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { zoneOffset } from "@gpve/domain/calendar/time-zone.ts";
import { taskRecordId } from "@gpve/domain/task/task-record.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { BackupJobs } from "../application/backup-job/backup-jobs.ts";
import { DueJobs } from "../application/backup-job/due-jobs.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { createBackupJobHandlers } from "../presentation/http/cluster/backup-job-handlers.ts";
import { openAccessFixture, type AccessFixture } from "./access-fixture.ts";

const STEP_MS = 20_000;

export interface BackupJobWorld extends AsyncDisposable {
  readonly fixture: AccessFixture;
  readonly due: DueJobs;
  readonly calls: AgentCall[];
  readonly health: Map<string, NodeHealth>;
  /** Set to make agents refuse. */
  refusal: string | undefined;
  root(route: string, params?: Record<string, unknown>): Promise<unknown>;
  addGuest(vmid: number, node: string, conf?: string): Promise<void>;
  addCluster(name: string, tenant: string, node: string, spec?: Record<string, unknown>): Promise<void>;
  /** Ends a task as its agent would. */
  endTask(upid: string): Promise<void>;
  upids(): string[];
  /** Lets time pass in small steps, with the store keeping up. */
  pass(ms: number): Promise<void>;
  /** A second one on the same store, as another server has one. */
  another(): DueJobs;
}

export async function openBackupJobWorld(): Promise<BackupJobWorld> {
  const fixture = await openAccessFixture();
  const { records, clock, access } = fixture;
  const zone = zoneOffset("UTC");
  const health = new Map<string, NodeHealth>([
    ["n1", "online"],
    ["n2", "online"],
  ]);
  const view = (node: string): NodeView | undefined =>
    health.has(node) ? ({ node, health: health.get(node) } as NodeView) : undefined;
  const board: NodeBoard = {
    list: () => [...health.keys()].flatMap((node) => view(node) ?? []),
    get: view,
    generation: () => 1,
  };
  const calls: AgentCall[] = [];
  const upids: string[] = [];
  const world = { refusal: undefined as string | undefined };
  const agents: AgentDirectory = {
    connection: (node) => ({
      node,
      call: async (call) => {
        if (world.refusal !== undefined) throw new Error(world.refusal);
        calls.push(call);
        const start = Math.floor(clock.now() / 1000)
          .toString(16)
          .padStart(8, "0");
        const upid = `UPID:${node}:${(1000 + calls.length).toString(16).padStart(8, "0")}:00000001:${start}:vzdump::root@pam:`;
        upids.push(upid);
        const id = taskRecordId(upid);
        if (id === undefined) throw new Error("not a UPID");
        await records.transact((tx) => tx.put(taskRecords, id, { upid }));
        return { data: upid };
      },
    }),
  };
  const jobs = new BackupJobs({
    records,
    clock,
    zone: () => zone,
    newId: () => "made-up-id",
    poolMembers: (pool) => access.directory.model().pools.get(pool)?.vms,
  });
  Object.assign(fixture.handlers, createBackupJobHandlers({ jobs, clock, zone: () => zone }));
  const another = (): DueJobs =>
    new DueJobs({
      records,
      jobs,
      board,
      calls: nodeCalls(agents),
      clock,
      zone: () => zone,
      newRequestId: () => "r",
      log: silentLogger,
    });
  return Object.assign(world, {
    fixture,
    due: another(),
    calls,
    health,
    root: (route: string, params: Record<string, unknown> = {}) => fixture.call("root@pam", route, params),
    addGuest: async (vmid: number, node: string, conf = `name: vm${vmid}\n`) => {
      const guest = guestRecord({ vmid, type: "qemu", node, conf });
      await records.transact((tx) => tx.put(guestCollection, String(vmid), guest));
    },
    addCluster: async (name: string, tenant: string, node: string, spec: Record<string, unknown> = {}) => {
      const cluster = { name, tenant, node, spec: readVirtualClusterSpec(spec), madeBy: "" };
      await records.transact((tx) => tx.put(vclusterCollection, name, cluster));
    },
    endTask: async (upid: string) => {
      const id = taskRecordId(upid) ?? "";
      const endtime = Math.floor(clock.now() / 1000);
      await records.transact((tx) => tx.put(taskRecords, id, { upid, endtime, exitstatus: "OK" }));
    },
    upids: () => upids,
    pass: async (ms: number) => {
      for (let left = ms; left > 0; left -= STEP_MS) {
        await clock.advance(Math.min(left, STEP_MS));
        for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
      }
    },
    another,
    [Symbol.asyncDispose]: () => fixture[Symbol.asyncDispose](),
  });
}
