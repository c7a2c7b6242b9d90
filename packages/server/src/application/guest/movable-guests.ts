// Where a VM could go, and why not elsewhere: from records and what nodes report, all in memory.
import { checkLock } from "@gpve/domain/guest/guest-lock.ts";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { requireSnapshot } from "@gpve/domain/guest/snapshot/snapshot.ts";
import { sidOf } from "@gpve/domain/ha/collections.ts";
import type { Mapping } from "@gpve/domain/mapping/mapping.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { conflict, parameterError } from "@gpve/domain/request/failures.ts";
import { parseBoolean } from "@gpve/domain/schema/list.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import {
  localResources,
  localVolumes,
  mappedResources,
  obstaclesAt,
  requireMovable,
  unknownTarget,
  type MoveEffects,
  type MoveFacts,
  type MoveTarget,
} from "@gpve/domain/vm/migrate/movable.ts";
import { sharedNodes } from "@gpve/domain/vm/migrate/shared-nodes.ts";
import { parseStorageMap } from "@gpve/domain/vm/migrate/storage-map.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";
import type { RequireMovable } from "../node/guest-moves.ts";

export interface MovableGuestsDeps {
  readonly board: NodeBoard;
  readonly storages: () => readonly StorageDefinition[];
  readonly mappings: () => readonly Mapping[];
  readonly ha: MoveJudge;
  /** undefined = there is no such guest. */
  readonly guest: (vmid: number) => { readonly record: GuestRecord; readonly config: VmConfig } | undefined;
}

/** As it came, but for what the server itself knows. */
type MoveAsked = Parameters<RequireMovable>[2] & {
  /** It is stopped before it goes. */
  readonly isStopped?: boolean;
};

export interface MoveJudge {
  /** Of a resource of HA. */
  effectsOf(sid: string, target: string): MoveEffects;
}

export class MovableGuests {
  readonly #deps: MovableGuestsDeps;

  constructor(deps: MovableGuestsDeps) {
    this.#deps = deps;
  }

  /** PVE's answer, and beside it `reasons` for each node that cannot take it. */
  show(node: string, vmid: number, target?: string): Record<string, unknown> {
    const found = this.#deps.guest(vmid);
    if (found === undefined) throw unknownTarget(node);
    const { config } = found;
    const facts = this.#facts(found.record);
    const sid = sidOf(found.record);
    const asked = target === undefined ? this.#others(node) : [this.#target(target)];
    const judged = asked.map((each) => {
      const { blocking, closed } = this.#deps.ha.effectsOf(sid, each.node);
      return { node: each.node, blocking, ...obstaclesAt(config, { ...each, blocking, closed }, facts) };
    });
    const mapped = mappedResources(config.values);
    return {
      running: facts.isRunning,
      local_disks: localVolumes(config, facts.definitions).map((volume) => ({
        volid: volume.volid,
        size: volume.bytes,
        drivename: volume.key,
        cdrom: volume.isCdrom || volume.isCloudinit,
        is_unused: volume.key.startsWith("unused"),
        is_attached: volume.isCurrent && !volume.key.startsWith("unused"),
        is_tpmstate: volume.key === "tpmstate0",
        is_vmstate: volume.key === "vmstate",
      })),
      local_resources: localResources(config.values),
      "mapped-resources": mapped.map(({ key }) => key),
      "mapped-resource-info": Object.fromEntries(mapped.map(({ key, id }) => [key, { name: id }])),
      "has-dbus-vmstate": false,
      "dependent-ha-resources": this.#deps.ha.effectsOf(sid, node).together,
      allowed_nodes: judged.filter(({ reasons }) => reasons.length === 0).map((each) => each.node),
      not_allowed_nodes: Object.fromEntries(
        judged
          .filter(({ reasons }) => reasons.length > 0)
          .map((each) => [
            each.node,
            {
              unavailable_storages: each.storages,
              ...(each.resources.length === 0 ? {} : { "unavailable-resources": each.resources }),
              ...(each.blocking.length === 0 ? {} : { "blocking-ha-resources": each.blocking }),
              reasons: each.reasons,
            },
          ]),
      ),
    };
  }

  /** Nodes that have all storages of its disks, as they are now or were at a snapshot. */
  sharing(node: string, vmid: number, snapshot: string | undefined): readonly string[] {
    const found = this.#deps.guest(vmid);
    if (found === undefined) throw unknownTarget(node);
    const { config, record } = found;
    const values = snapshot === undefined ? config.values : requireSnapshot(config, snapshot);
    const nodes = this.#deps.board.list().map((view) => view.node);
    return sharedNodes(values, this.#deps.storages(), { at: record.node, nodes });
  }

  /** What a node finds out before it looks at the other one, for whoever asks somebody else than it. */
  requireReady(vmid: number, target: string, online: boolean): void {
    const found = this.#deps.guest(vmid);
    if (found?.record.node === target) throw parameterError({ target: "target is local node." });
    this.#target(target);
    if (found?.record.type !== VM_TYPE) return;
    checkLock(found.config);
    if (!online && this.#facts(found.record).isRunning)
      throw conflict("can't migrate running VM without --online");
  }

  /** Before a move is allowed: throws what stands in its way. What HA keeps apart is judged when it is asked to move. */
  require(vmid: number, target: string, asked: MoveAsked = {}): void {
    const { targetstorage, force, isStopped } = asked;
    const found = this.#deps.guest(vmid);
    // What kind of guest it is and whether it is there at all is its node's to say.
    if (found?.record.type !== VM_TYPE) return;
    const storageMap = typeof targetstorage === "string" ? parseStorageMap(targetstorage) : undefined;
    // Whether whoever asks may force anything is its node's to say as well.
    const isForced = force === true || force === 1 || (typeof force === "string" && parseBoolean(force));
    const facts = this.#facts(found.record);
    const isRunning = facts.isRunning && isStopped !== true;
    requireMovable(found.config, this.#target(target), { ...facts, isRunning, storageMap, isForced });
  }

  #facts({ node, vmid }: GuestRecord): MoveFacts {
    const view = this.#deps.board.get(node);
    return {
      definitions: this.#deps.storages(),
      isRunning: view?.report?.guests.some((each) => each.vmid === vmid) ?? false,
      accelerator: view?.facts?.accelerator,
      cpuFlags: cpuFlagsOf(view),
      mappings: this.#deps.mappings(),
    };
  }

  #others(node: string): MoveTarget[] {
    return this.#deps.board
      .list()
      .filter((view) => view.node !== node)
      .map(targetOf);
  }

  #target(node: string): MoveTarget {
    const view = this.#deps.board.get(node);
    if (view === undefined) throw unknownTarget(node);
    return targetOf(view);
  }
}

function targetOf(view: NodeView): MoveTarget {
  const { node, health, report, facts } = view;
  return {
    node,
    isOnline: health === "online",
    storages: report && new Set(report.storages.filter(({ active }) => active).map(({ storage }) => storage)),
    // One that has found none yet says so itself when it is asked to take the VM.
    bridges: facts?.bridges.length === 0 ? undefined : facts?.bridges,
    freeMemory: report?.usage.memory.available,
    accelerator: facts?.accelerator,
    cpuFlags: cpuFlagsOf(view),
  };
}

function cpuFlagsOf(view: NodeView | undefined): readonly string[] | undefined {
  const flags = view?.facts?.qemu?.cpuFlags;
  return view?.facts?.accelerator === "kvm" ? flags?.kvm : flags?.tcg;
}
