// A VM whose node is gone, from the copy of its disks that another node keeps: what was written since that copy is lost,
// and whoever asks is told how old it is. Back again goes the same way, once the other node has a copy of what is now.
import { given } from "@gpve/contracts/given.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { FailoverRequest, FailoverResult } from "@gpve/contracts/v1/bodies.ts";
import { resourceCollection, sidOf } from "@gpve/domain/ha/collections.ts";
import {
  guestCollection,
  guestRecord,
  withOwner,
  type GuestRecord,
} from "@gpve/domain/guest/guest-record.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { ageText, failoverConfig } from "@gpve/domain/replication/failover-config.ts";
import { replicationCollection, type ReplicationJob } from "@gpve/domain/replication/replication-job.ts";
import {
  noReplicationYet,
  replicationStateCollection,
  withoutReplica,
} from "@gpve/domain/replication/replication-state.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { conflict, missing } from "@gpve/domain/request/failures.ts";
import { isShared, type StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { writeVmConfig } from "@gpve/domain/vm/config/write-config.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { byReplication } from "./replication-work.ts";

export interface FailoverDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
  readonly clock: Clock;
  readonly log: Pick<Logger, "warn" | "info">;
  readonly storages: () => readonly StorageDefinition[];
  readonly config: (guest: GuestRecord) => VmConfig;
}

interface Copy {
  readonly job: ReplicationJob;
  readonly at: number;
}

interface RecoveredCopy {
  readonly at: number;
  readonly volumes: readonly { readonly source: string; readonly volid: string }[];
}

export class Failover {
  readonly #deps: FailoverDeps;

  constructor(deps: FailoverDeps) {
    this.#deps = deps;
  }

  async run(vmid: number, request: FailoverRequest, ctx: RequestContext): Promise<FailoverResult> {
    ctx.access.require(`/vms/${vmid}`, ["VM.Migrate"]);
    if (request.start === true) ctx.access.require(`/vms/${vmid}`, ["VM.PowerMgmt"]);
    const { records, calls, log } = this.#deps;
    const guest = records.collection(guestCollection).get(String(vmid))?.value;
    if (guest === undefined) throw missing(`there is no guest ${vmid}`);
    this.#requireGone(guest, request);
    const { job } = this.#copyOf(guest, request.target);
    const to = job.target;
    const copy = (await calls.call(to, "POST /gpve/nodes/{node}/vms/{vmid}/replica/recover", { vmid }, ctx))
      .data;
    const left = await records.transact((tx) => this.#takeOver(tx, guest, job, copy, request));
    const ageSeconds = Math.max(0, Math.floor(this.#deps.clock.now() / 1000) - copy.at);
    log.info({ vmid, from: guest.node, to, ageSeconds }, "a VM goes on from the copy of its disks");
    await this.#forgetCopy(to, vmid, ctx);
    const task = request.start === true ? await this.#start(to, vmid, ctx) : undefined;
    const copyOf = new Date(copy.at * 1000).toISOString();
    return {
      vmid,
      from: guest.node,
      to,
      copyOf,
      ageSeconds,
      age: ageText(ageSeconds),
      left: [...left],
      ...given({ task }),
    };
  }

  #requireGone({ vmid, node, type }: GuestRecord, { nodeIsOff }: FailoverRequest): void {
    const sid = sidOf({ vmid, type });
    if (this.#deps.records.collection(resourceCollection).get(sid) !== undefined)
      throw conflict(
        `VM ${vmid} is under HA, which decides where it runs: remove resource '${sid}' first, then ask again`,
      );
    const health = this.#deps.board.get(node)?.health;
    if (health === "unknown")
      throw conflict(`this server has not heard of node '${node}' yet: ask again in a few seconds`);
    if (health === "online")
      throw conflict(
        `node '${node}' is online and has VM ${vmid}: move it with migrate, which loses nothing; a copy is for a node that is gone`,
      );
    if (nodeIsOff !== true)
      throw conflict(
        `node '${node}' does not answer, but VM ${vmid} may still run there: make sure that the node is off, then say so (nodeIsOff, --node-is-off)`,
      );
  }

  /** The newest on a node that answers. */
  #copyOf({ vmid, node }: GuestRecord, target: string | undefined): Copy {
    const { records, board } = this.#deps;
    const jobs = records.collection(replicationCollection).list();
    const states = records.collection(replicationStateCollection);
    const copies = jobs
      .map(({ value: job }) => ({ job, at: states.get(job.id)?.value.replicas?.[job.target] }))
      .filter((copy): copy is Copy => copy.job.guest === vmid && copy.at !== undefined)
      .filter(({ job }) => job.target !== node && (target === undefined || job.target === target))
      .toSorted((a, b) => b.at - a.at);
    if (copies.length === 0) throw missing(`no node${of(target)} has a whole copy of VM ${vmid}'s disks`);
    const found = copies.find(({ job }) => board.get(job.target)?.health === "online");
    if (found === undefined)
      throw conflict(
        `no node that has a copy of VM ${vmid}'s disks is online: ${copies.map(({ job }) => job.target).join(", ")}`,
      );
    return found;
  }

  /** Returns what stays behind. What its former owner still writes is refused from then on. */
  #takeOver(
    tx: Tx,
    before: GuestRecord,
    { id }: ReplicationJob,
    copy: RecoveredCopy,
    { dropMissing }: FailoverRequest,
  ): readonly string[] {
    const { vmid, node: from } = before;
    const guest = tx.get(guestCollection, String(vmid))?.value;
    const job = tx.get(replicationCollection, id)?.value;
    if (guest?.node !== from || job === undefined)
      throw conflict(`VM ${vmid} was moved or its job changed meanwhile: look again`);
    const definitions = new Map(this.#deps.storages().map((each) => [each.storage, each]));
    const isLocal = (storage: string): boolean => {
      const definition = definitions.get(storage);
      return definition === undefined || !isShared(definition);
    };
    const { config, missing: gone, left } = failoverConfig(this.#deps.config(guest), copy.volumes, isLocal);
    if (gone.length > 0 && dropMissing !== true)
      throw conflict(
        `VM ${vmid} has disks that were never copied: ${gone.join(", ")}; go on without them by dropMissing, or wait for node '${from}'`,
      );
    const { summary: _old, ...kept } = guest;
    const record = guestRecord({ ...kept, conf: writeVmConfig(config) });
    tx.put(guestCollection, String(vmid), withOwner(record, job.target));
    // Back again: what the other node has is replaced by a copy of what is now.
    tx.put(replicationCollection, id, {
      ...job,
      target: from,
      replaces: copy.volumes.map(({ source }) => source),
      since: Math.floor(this.#deps.clock.now() / 1000),
    });
    const {
      error: _error,
      run: _run,
      ...state
    } = tx.get(replicationStateCollection, id)?.value ?? noReplicationYet;
    tx.put(replicationStateCollection, id, { ...withoutReplica(state, job.target), failCount: 0 });
    return [...gone, ...left];
  }

  /** Its volumes are the VM's own now. */
  async #forgetCopy(node: string, vmid: number, { requestId, signal }: RequestContext): Promise<void> {
    const route = "DELETE /gpve/nodes/{node}/vms/{vmid}/replica";
    try {
      await this.#deps.calls.call(node, route, { vmid, keep: true }, byReplication(requestId, signal));
    } catch (err) {
      this.#deps.log.warn({ vmid, node, err: messageOf(err) }, "a copy that took over is still noted as one");
    }
  }

  async #start(node: string, vmid: number, ctx: RequestContext): Promise<string> {
    const { data } = await this.#deps.calls.call(
      node,
      "POST /nodes/{node}/qemu/{vmid}/status/start",
      { vmid },
      ctx,
    );
    return String(data);
  }
}

function of(target: string | undefined): string {
  return target === undefined ? "" : ` '${target}'`;
}
