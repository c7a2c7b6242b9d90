// A VM that leaves for another cluster: its disks are uploaded there and a VM is made of them, by nothing but PVE's own
// methods. Until that is done all of it is still here; afterwards it goes only when that was asked for.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { PveParams } from "@gpve/contracts/gen/pve-params.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Ids } from "@gpve/domain/guest/ids.ts";
import { checkLock, isTemplate, setLock } from "@gpve/domain/guest/guest-lock.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { conflict, refused } from "@gpve/domain/request/failures.ts";
import type { ReachCluster, RemoteCluster } from "@gpve/domain/vm/migrate/remote-cluster.ts";
import {
  leftDiscs,
  parseRemoteEndpoint,
  remoteCreateParams,
  remoteDisks,
  requireLeavable,
  type RemoteDisk,
  type RemoteEndpoint,
} from "@gpve/domain/vm/migrate/remote-move.ts";
import { parseStorageMap, type StorageMap } from "@gpve/domain/vm/migrate/storage-map.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { volumeOf } from "../../guest/guest-storages.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import { submitVmTask, vmKey } from "../request/vm-tasks.ts";
import { runningVm } from "../running-vm.ts";
import { waitForTask } from "./remote-task.ts";
import { keepLive, sendLive, type LivePorts, type LiveState } from "./send-live.ts";

export interface RemoteMigratePorts extends LivePorts {
  readonly configs: VmConfigs;
  readonly ids: Ids;
  readonly reach: ReachCluster;
}

export interface RemoteMigrateArgs {
  readonly vmid: number;
  /** Under which the endpoint is known here: its token is nowhere but in memory. */
  readonly endpoint: string;
  readonly targetVmid: number;
  readonly storages: string;
  readonly bridges: string;
  readonly delete: boolean;
  readonly online: boolean;
  /** KiB/s */
  readonly bwlimit?: number;
}

interface RemoteState extends LiveState {
  /** Uploaded there, by the keys of disks. */
  files?: Readonly<Record<string, string>>;
}

type Context = StepContext<RemoteMigrateArgs, RemoteState>;

const REMOTE_MIGRATE = "qmremote";

export class RemoteMigration {
  readonly #host: RemoteMigratePorts;
  readonly #engine: OperationEngine;
  readonly #endpoints = new Map<string, RemoteEndpoint>();

  constructor(host: RemoteMigratePorts, engine: OperationEngine) {
    this.#host = host;
    this.#engine = engine;
  }

  async request(
    params: PveParams["POST /nodes/{node}/qemu/{vmid}/remote_migrate"],
    ctx: RequestContext,
  ): Promise<string> {
    const { vmid, online, bwlimit } = params;
    const endpoint = parseRemoteEndpoint(params["target-endpoint"]);
    const { storages } = mapsOf(params["target-storage"], params["target-bridge"]);
    // Storages of another cluster mean nothing by their names here.
    if (storages.identity === true) throw refused("remote migration requires explicit storage mapping!");
    const config = this.#host.configs.get(vmid);
    checkLock(config);
    if (isTemplate(config)) throw refused(`VM ${vmid} is a template: clone it, and move the clone`);
    if (params.delete === true) ctx.access.require(`/vms/${vmid}`, ["VM.Allocate"]);
    if (runningVm(this.#host, vmid) !== undefined) {
      if (online === true) requireLeavable(vmid, config);
      else throw conflict("can't migrate running VM without --online");
    }
    remoteDisks(vmid, config, storages);
    const id = this.#host.ids.newUuid();
    this.#endpoints.set(id, endpoint);
    const args: Omit<RemoteMigrateArgs, "vmid"> = {
      endpoint: id,
      targetVmid: params["target-vmid"] ?? vmid,
      storages: params["target-storage"],
      bridges: params["target-bridge"],
      delete: params.delete ?? false,
      online: online ?? false,
      ...given({ bwlimit }),
    };
    return submitVmTask(this.#engine, REMOTE_MIGRATE, vmid, args, ctx);
  }

  operation(): OperationDefinition<RemoteMigrateArgs, RemoteState> {
    return {
      type: REMOTE_MIGRATE,
      taskType: "qmigrate",
      lock: "migrate",
      exclusive: true,
      steps: [{ name: "send", run: (ctx) => this.#send(ctx), undo: (ctx) => this.#callOff(ctx) }],
    };
  }

  async #send(ctx: Context): Promise<void> {
    const { args, state, log } = ctx;
    const { vmid, targetVmid } = args;
    const endpoint = this.#endpoints.get(args.endpoint);
    if (endpoint === undefined) throw conflict("the agent was started again meanwhile: ask for it again");
    const remote = this.#host.reach(endpoint, ctx.signal);
    const config = this.#host.configs.get(vmid);
    const process = runningVm(this.#host, vmid);
    // It may have been started while this waited.
    if (process !== undefined && !args.online) throw conflict("can't migrate running VM without --online");
    const maps = mapsOf(args.storages, args.bridges);
    const disks = remoteDisks(vmid, config, maps.storages);
    const { version } = ((await remote.call("GET", "/version")) ?? {}) as { version?: string };
    log(`the cluster at ${endpoint.host}:${endpoint.port} answers (version ${version ?? "unknown"})`);
    for (const disc of leftDiscs(config)) log(`${disc} stays here`);
    if (process !== undefined) {
      const reachAgain = (): RemoteCluster => this.#host.reach(endpoint, new AbortController().signal);
      await sendLive(this.#host, { remote, reachAgain, config, disks, maps, process }, ctx);
    } else {
      for (const disk of disks) await this.#upload(ctx, remote, disk);
      const files = Object.entries(state.files ?? {}).map(([key, file]) => [key, { file }] as const);
      const params = remoteCreateParams(config, targetVmid, disks, Object.fromEntries(files), maps);
      const upid = await remote.call("POST", "/nodes/localhost/qemu", params);
      await waitForTask(this.#host, remote, String(upid), ctx.signal);
      state.done = true;
      await ctx.checkpoint();
      await this.#clear(remote, ctx);
    }
    log(`it is VM ${targetVmid} there`);
    this.#endpoints.delete(args.endpoint);
    if (!args.delete && process !== undefined) {
      await this.#host.configs.change(vmid, (now) => setLock(now, "migrate"));
      log(`VM ${vmid} is stopped here, and locked: it goes on there`);
    }
    if (!args.delete) return;
    log(`VM ${vmid} is destroyed here`);
    await this.#engine.submit({
      type: "qmdestroy",
      resources: [vmKey(vmid)],
      args: { vmid, destroyUnreferenced: false, skiplock: false, storages: [] },
      actor: ctx.actor,
      subject: String(vmid),
    });
  }

  async #upload(ctx: Context, remote: RemoteCluster, { key, volid, storage }: RemoteDisk): Promise<void> {
    const { args, state, log, progress } = ctx;
    const { plugin, volname } = volumeOf(this.#host, volid);
    await plugin.activate();
    const { format, size, body } = await plugin.exportStream(volname);
    const name = `remote-${args.targetVmid}-${key}-${args.endpoint.slice(0, 8)}.${format}`;
    const file = `${storage}:import/${name}`;
    log(`sending '${volid}' (${(size / 1024 ** 2).toFixed(1)} MiB) to storage '${storage}'`);
    state.files = { ...state.files, [key]: file };
    await ctx.checkpoint();
    const bytesPerSecond = args.bwlimit === undefined || args.bwlimit === 0 ? undefined : args.bwlimit * 1024;
    const upid = await remote.upload(
      storage,
      { name, size, body },
      { progress: (fraction) => progress(fraction, volid), ...given({ bytesPerSecond }) },
    );
    await waitForTask(this.#host, remote, upid, ctx.signal);
  }

  /** Nothing but the VM stays there. */
  async #clear(remote: RemoteCluster, { state, log }: Context): Promise<void> {
    for (const volid of Object.values(state.files ?? {})) {
      const storage = volid.split(":")[0] ?? "";
      const path = `/nodes/localhost/storage/${encodeURIComponent(storage)}/content/${encodeURIComponent(volid)}`;
      await remote
        .call("DELETE", path)
        .catch((err: unknown) => log(`'${volid}' is left there: ${messageOf(err)}`));
    }
    delete state.files;
  }

  async #callOff(ctx: Context): Promise<void> {
    const { args, state, log } = ctx;
    const endpoint = this.#endpoints.get(args.endpoint);
    this.#endpoints.delete(args.endpoint);
    await keepLive(this.#host, endpoint && this.#host.reach(endpoint, ctx.signal), ctx);
    if (state.files === undefined) return;
    if (endpoint === undefined) {
      log(`what was uploaded is left there: ${Object.values(state.files).join(", ")}`);
      return;
    }
    await this.#clear(this.#host.reach(endpoint, ctx.signal), ctx);
    if (state.done !== true) log(`VM ${args.vmid} stays here as it was`);
  }
}

function mapsOf(storages: string, bridges: string): Readonly<Record<"storages" | "bridges", StorageMap>> {
  return {
    bridges: parseStorageMap(bridges, { name: "target-bridge", of: "bridge" }),
    storages: parseStorageMap(storages, { name: "target-storage", of: "storage" }),
  };
}
