import { createHash } from "node:crypto";
import { given } from "@gpve/contracts/given.ts";
import type { AgentRoute, AskedOf } from "@gpve/contracts/agent/agent-routes.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { virtualMachineKind } from "@gpve/contracts/v1/kinds/virtual-machine.ts";
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime, NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import { effectiveValues } from "@gpve/domain/vm/change/pending.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { withGrowth } from "@gpve/domain/vm/spec/disk-growth.ts";
import { patchVmSpec } from "@gpve/domain/vm/spec/patch-spec.ts";
import { diskNotes } from "@gpve/domain/vm/spec/plan-notes.ts";
import { toValues } from "@gpve/domain/vm/spec/spec-values.ts";
import type { VmDefaults } from "@gpve/domain/vm/spec/vm-defaults.ts";
import { toTypedSpec, type TypedVmSpec } from "@gpve/domain/vm/spec/typed-spec.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import type { ReportedGuest } from "../../node/guest-reported.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { movedGuests, tenantOf } from "../tenant-of.ts";
import type { VmPhases } from "../../phase/vm-phases.ts";
import { byName, type KindActions, type KindAdapter, type RawObject, type Reader } from "../adapter.ts";
import type { GuestRules } from "../../scheduler/guest-rules.ts";
import { AUTO, type PlaceGuest } from "../../scheduler/place-guest.ts";
import { schedulingDef } from "../../scheduler/placement-records.ts";
import { mergePatch, sameJson } from "../merge-patch.ts";
import {
  poolOfNew,
  readVmSpec,
  requireTenant,
  settledTyped,
  shownVmSpec,
  withRules,
} from "./vm-read-spec.ts";
import { madeAt, vmStatus } from "./vm-status.ts";
import type { ConditionClock } from "./node.ts";
import { checkNewConfig, inWordsOfSpec, settledVmConfig, shownConfig, type VmSpec } from "./vm-spec.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";

export interface VmActionDeps {
  /** Calls a method of a node, after what it needs was judged. Resolves with its data. */
  readonly callNode: <R extends AgentRoute>(
    node: string,
    route: R,
    params: AskedOf<R>,
    ctx: RequestContext,
  ) => Promise<unknown>;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
  /** From then on no node makes the VM that a request asked for and that is not there yet. */
  readonly withdraw: (vmid: string, requestId: string) => Promise<void>;
  /** Resolves when the node has told that a VM runs, or does not; or when it has had long enough. */
  readonly reported: (guest: ReportedGuest, signal: AbortSignal) => Promise<void>;
  readonly placement: {
    readonly guests: Pick<PlaceGuest, "run">;
    readonly rules: Pick<GuestRules, "set">;
  };
}

export interface VirtualMachineDeps {
  readonly board: NodeBoard;
  readonly phases: Pick<VmPhases, "of" | "onStep">;
  /** What VMs of a node get that do not say. */
  readonly defaultsOf: (node: string) => VmDefaults;
  /** Since when its node is reached, or not. */
  readonly conditionTimes: ConditionClock;
  readonly vmActions: VmActionDeps;
}

/** Long enough for a guest to switch itself off. */
const SHUTDOWN_SECONDS = 60;
const NO_GUESTS: readonly GuestRuntime[] = [];
/** Not a client's to remove by leaving them out. */
const KEPT_ALWAYS = new Set(["digest", "meta", "smbios1", "vmgenid", "lock", "parent"]);

/** VMs of every node: their configuration from the store, their state from what nodes report. */
export function virtualMachineAdapter(deps: VirtualMachineDeps): KindAdapter {
  const parsed = new WeakMap<Entry<GuestRecord>, VmConfig>();
  const configOf = (entry: Entry<GuestRecord>): VmConfig => {
    let config = parsed.get(entry);
    if (config === undefined) {
      config = parseVmConfig(entry.value.conf, { vmid: entry.value.vmid, digestOf: () => "" });
      parsed.set(entry, config);
    }
    return config;
  };
  const typed = new WeakMap<Entry<GuestRecord>, TypedVmSpec>();
  const typedOf = (entry: Entry<GuestRecord>): TypedVmSpec => {
    let spec = typed.get(entry);
    if (spec === undefined) {
      spec = toTypedSpec(shownConfig(effectiveValues(configOf(entry))));
      typed.set(entry, spec);
    }
    return spec;
  };
  const byVmid = new WeakMap<readonly GuestRuntime[], ReadonlyMap<number, GuestRuntime>>();
  const runtimeOf = (guests: readonly GuestRuntime[], vmid: number): GuestRuntime | undefined => {
    let index = byVmid.get(guests);
    if (index === undefined) {
      index = new Map(guests.map((guest) => [guest.vmid, guest]));
      byVmid.set(guests, index);
    }
    return index.get(vmid);
  };
  const raw = (reader: Reader, entry: Entry<GuestRecord>): RawObject => {
    const { vmid, node, microvm, madeBy } = entry.value;
    const namespace = tenantOf(reader, vmid);
    const scheduling = reader.get(schedulingDef, String(vmid));
    const runtime = runtimeOf(deps.board.get(node)?.report?.guests ?? NO_GUESTS, vmid);
    const config = configOf(entry);
    return {
      name: String(vmid),
      ...given({ namespace }),
      spec: {
        node,
        running: runtime?.status === "running",
        ...withRules(typedOf(entry), scheduling?.value.rules),
        ...(microvm === undefined ? {} : { microvm: { ...microvm } }),
      },
      status: vmStatus({
        record: entry.value,
        config,
        runtime,
        health: deps.board.get(node)?.health,
        shown: deps.phases.of(String(vmid)),
        times: deps.conditionTimes,
      }),
      revision: Math.max(entry.revision, scheduling?.revision ?? 0),
      createRevision: entry.createRevision,
      generation: entry.version,
      ...given({ madeBy, createdAt: madeAt(config) }),
      digest: () => createHash("sha1").update(entry.value.conf).digest("hex"),
    };
  };
  return {
    kind: virtualMachineKind,
    collections: [guestCollection, poolsDef, schedulingDef] as readonly CollectionDef<unknown>[],
    list: (reader) => {
      const vms = reader.list(guestCollection).filter(isVm);
      return vms.map((entry) => raw(reader, entry)).toSorted(byName);
    },
    get: (reader, name) => {
      const entry = reader.get(guestCollection, name);
      return entry === undefined || !isVm(entry) ? undefined : raw(reader, entry);
    },
    onChange: (records, changed) => {
      const stops = [
        records.collection(guestCollection).onChange((id) => changed([id])),
        records.collection(schedulingDef).onChange((id) => changed([id])),
        deps.phases.onStep(({ vmid }) => changed([vmid])),
        records
          .collection(poolsDef)
          .onChange((_id, after, before) => changed(movedGuests(before?.value, after?.value))),
      ];
      return () => stops.forEach((stop) => stop());
    },
    act: actions(deps, deps.vmActions, configOf, typedOf),
  };
}

function actions(
  { board, defaultsOf }: VirtualMachineDeps,
  { callNode, taskEnd, reported, withdraw, placement }: VmActionDeps,
  configOf: (entry: Entry<GuestRecord>) => VmConfig,
  typedOf: (entry: Entry<GuestRecord>) => TypedVmSpec,
): KindActions {
  const ofNew = (name: string, spec: Fields): VmSpec => {
    const node = (spec["node"] as string | undefined) ?? onlyNode(board, spec);
    return readVmSpec(name, spec, node, { defaults: defaultsOf(node) });
  };
  const work = async <R extends AgentRoute>(
    node: string,
    route: R,
    params: AskedOf<R>,
    ctx: RequestContext,
  ): Promise<void> => {
    const answer = await callNode(node, route, params, ctx);
    if (typeof answer === "string" && answer.startsWith("UPID:")) await taskEnd(answer, ctx.signal);
  };
  const setRunning = async (node: string, vmid: number, running: boolean, ctx: RequestContext) => {
    const status = "POST /nodes/{node}/qemu/{vmid}/status" as const;
    if (running) await work(node, `${status}/start`, { vmid }, ctx);
    else await work(node, `${status}/shutdown`, { vmid, timeout: SHUTDOWN_SECONDS, forceStop: 1 }, ctx);
    await reported({ node, vmid, running }, ctx.signal);
  };
  return {
    secrets: new Set(["spec.config.cipassword", "spec.cloudInit.password"]),
    parts: (spec) => toValues(spec).values,
    patch: (_name, current, patch) => patchVmSpec(current, patch, mergePatch),
    notes: (before, after) =>
      before === undefined ? [] : diskNotes(toValues(before).values, toValues(after).values),
    settle(reader, { name, namespace, spec }) {
      const entry = reader.get(guestCollection, name);
      const read =
        entry === undefined
          ? ofNew(name, spec)
          : readVmSpec(name, spec, entry.value.node, {
              defaults: defaultsOf(entry.value.node),
              current: { values: effectiveValues(configOf(entry)), typed: typedOf(entry) },
            });
      // One that is there was placed: it stays.
      const wanted = entry === undefined || read.node !== AUTO ? read : { ...read, node: entry.value.node };
      if (wanted.node !== AUTO && board.get(wanted.node) === undefined)
        throw new AppError("request.invalid", `there is no node '${wanted.node}'`, {
          errors: { "spec.node": "is not a node of this cluster" },
        });
      if (entry === undefined) {
        checkNewConfig(name, wanted);
        poolOfNew(namespace, wanted);
        return shownVmSpec(wanted);
      }
      requireTenant(name, namespace, tenantOf(reader, Number(name)));
      requireSame(name, { node: entry.value.node, microvm: entry.value.microvm }, wanted);
      const guests = board.get(entry.value.node)?.report?.guests ?? NO_GUESTS;
      const runs = guests.some(({ vmid, status }) => vmid === entry.value.vmid && status === "running");
      const current = effectiveValues(configOf(entry));
      const { values, growths } = settledTyped(wanted, shownConfig(current));
      const settled = settledVmConfig(name, { ...wanted, config: values }, current);
      return shownVmSpec({
        ...wanted,
        running: wanted.running ?? runs,
        config: withGrowth(settled, growths),
      });
    },
    async create({ name, namespace, labels, spec, ctx }) {
      const wanted = ofNew(name, spec);
      const { running, microvm, rules } = wanted;
      const vmid = Number(name);
      const pool = poolOfNew(namespace, wanted);
      const make = async (node: string): Promise<void> => {
        // A node has defaults of its own.
        const own = node === wanted.node ? wanted.config : ofNew(name, { ...spec, node }).config;
        const config = pool === undefined ? own : { ...own, pool };
        const params = { vmid, config, ...given({ pool, running, microvm }) };
        await inWordsOfSpec(wanted.paths, () =>
          work(node, "POST /gpve/nodes/{node}/virtual-machines", params, ctx),
        );
        if (running === true) await reported({ node, vmid, running }, ctx.signal);
      };
      if (rules !== undefined) await placement.rules.set(name, rules);
      try {
        if (wanted.node !== AUTO) return await make(wanted.node);
        const guest = { kind: "vm" as const, vmid, keys: wanted.config, tenant: pool, labels, rules };
        await placement.guests.run({ ...guest, starts: running === true }, ctx, ({ node }) => make(node));
      } catch (err) {
        if (rules !== undefined) await placement.rules.set(name, undefined);
        throw err;
      }
    },
    async change({ name, namespace, spec, previous, ctx }) {
      const vmid = Number(name);
      const before = readVmSpec(name, previous.spec);
      const read = readVmSpec(name, spec, before.node, {
        defaults: defaultsOf(before.node),
        current: { values: before.config, typed: previous.spec },
      });
      const after = read.node === AUTO ? { ...read, node: before.node } : read;
      requireSame(name, before, after);
      requireTenant(name, namespace, previous.namespace);
      // What has grown does not shrink again when an apply is undone.
      const mayStayLarger = ctx.work === "undo-apply";
      const { values, growths } = settledTyped(after, before.config, { mayStayLarger });
      const set = Object.entries(values).filter(([key, text]) => before.config[key] !== text);
      const gone = Object.keys(before.config).filter(
        (key) => !Object.hasOwn(values, key) && !KEPT_ALWAYS.has(key),
      );
      if (!sameJson(before.rules ?? {}, after.rules ?? {})) {
        ctx.access.require(`/vms/${name}`, ["VM.Config.Options"]);
        await placement.rules.set(name, after.rules);
      }
      const isWritten = set.length + gone.length > 0;
      if (isWritten) {
        const params = {
          ...Object.fromEntries(set),
          ...(gone.length === 0 ? {} : { delete: gone.join(",") }),
          vmid,
          ...judged(previous),
        };
        await inWordsOfSpec(after.paths, () =>
          work(before.node, "PUT /nodes/{node}/qemu/{vmid}/config", params, ctx),
        );
      }
      for (const [index, growth] of growths.entries()) {
        // What this request wrote itself has another digest.
        const params = { ...growth, vmid, ...(isWritten || index > 0 ? {} : judged(previous)) };
        await work(before.node, "PUT /nodes/{node}/qemu/{vmid}/resize", params, ctx);
      }
      if (after.running !== undefined && after.running !== before.running)
        await setRunning(before.node, vmid, after.running, ctx);
    },
    async remove({ name, previous, ctx }) {
      const { node } = readVmSpec(name, previous.spec);
      await work(
        node,
        "DELETE /gpve/nodes/{node}/virtual-machines/{vmid}",
        { vmid: Number(name), ...judged(previous) },
        ctx,
      );
    },
    forestall: ({ name, ctx }) => withdraw(name, ctx.requestId),
    async discard({ name, previous, ctx }) {
      const [vmid, { node }] = [Number(name), readVmSpec(name, previous.spec)];
      await work(node, "POST /nodes/{node}/qemu/{vmid}/status/stop", { vmid }, ctx);
      await work(
        node,
        "DELETE /gpve/nodes/{node}/virtual-machines/{vmid}",
        { vmid, ...given({ madeBy: previous.madeBy }) },
        ctx,
      );
    },
  };
}

/** What was judged is what is changed: a node refuses when its configuration is another by then. */
function judged({ digest }: RawObject): { readonly digest?: string } {
  return digest === undefined ? {} : { digest: digest() };
}

function requireSame(
  name: string,
  before: Pick<VmSpec, "node" | "microvm">,
  after: Pick<VmSpec, "node" | "microvm">,
): void {
  if (after.node !== before.node)
    throw new AppError(
      "feature.unsupported",
      `VM ${name} is on node '${before.node}': moving it is no change of its spec`,
    );
  if (!sameJson(after.microvm, before.microvm))
    throw new AppError("request.invalid", "spec.microvm is set when a VM is made and stays");
}

/** Where a VM goes that does not say: where else than to the only node there is. */
function onlyNode(board: NodeBoard, spec: Fields): string {
  const nodes = board.list().map(({ node }) => node);
  const [only] = nodes;
  if (spec["node"] === undefined && (only === undefined || nodes.length > 1))
    throw new AppError(
      "request.invalid",
      `say in spec.node which node shall have it: ${nodes.join(", ")}, or auto`,
      {
        errors: { "spec.node": "is needed where there is not exactly one node" },
      },
    );
  return only ?? "";
}

function isVm({ value }: Entry<GuestRecord>): boolean {
  return value.type === VM_TYPE;
}
