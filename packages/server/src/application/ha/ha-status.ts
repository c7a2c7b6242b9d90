// How HA stands, from records alone: any server can tell.
import { given } from "@gpve/contracts/given.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import {
  evidenceCollection,
  localCollection,
  localId,
  managerCollection,
  managerLeaseCollection,
  MANAGER_LEASE_ID,
  MANAGER_STATUS_ID,
  resourceCollection,
  type Evidence,
  type HaResource,
} from "@gpve/domain/ha/collections.ts";
import {
  emptyManagerStatus,
  type LocalStatus,
  type ManagerStatus,
  type ServiceStatus,
} from "@gpve/domain/ha/model.ts";
import { leaseCollection, leaseId } from "@gpve/domain/ha/node-lease.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";

export interface HaStatusDeps {
  readonly records: Records;
  readonly clock: Clock;
  readonly localNode: string;
  readonly quorate: () => boolean;
  readonly nodes: () => readonly string[];
}

export interface EvidenceLine extends Pick<Evidence, "by" | "role"> {
  /** RFC 3339 */
  readonly at: string;
  readonly level: string;
  readonly text: string;
}

type Row = Record<string, unknown>;
const OLD_MS = 30_000;

export class HaStatus {
  readonly #deps: HaStatusDeps;

  constructor(deps: HaStatusDeps) {
    this.#deps = deps;
  }

  current(): readonly Row[] {
    const { nodes } = this.#deps;
    return [
      this.#quorum(),
      ...this.#master(),
      ...this.#fencing(),
      ...nodes().flatMap((node) => this.#local(node)),
      ...this.#services(),
    ];
  }

  managerStatus(): Row {
    const { records, nodes, localNode, quorate } = this.#deps;
    const status = this.#status();
    const lead = records.collection(managerLeaseCollection).get(MANAGER_LEASE_ID)?.value;
    const local = nodes().flatMap((node): [string, unknown][] => {
      const report = records.collection(localCollection).get(localId(node))?.value;
      const lease = records.collection(leaseCollection).get(leaseId(node))?.value;
      if (report === undefined) return [];
      const results = Object.entries(report.results).map(([uid, { sid, exit }]) => [
        uid,
        { sid, exit_code: exit },
      ]);
      const { state, mode } = report;
      const at = lease === undefined ? undefined : Math.floor(lease.at / 1000);
      return [[node, { state, mode, results: Object.fromEntries(results), ...given({ timestamp: at }) }]];
    });
    const services = Object.entries(status.services).map(
      ([sid, { failedNodes, maintenanceNode, ...rest }]) => [
        sid,
        { ...rest, ...given({ failed_nodes: failedNodes, maintenance_node: maintenanceNode }) },
      ],
    );
    return {
      manager_status:
        status.masterNode === undefined
          ? {}
          : {
              master_node: lead?.node ?? status.masterNode,
              node_status: status.nodes,
              service_status: Object.fromEntries(services),
              timestamp: Math.floor((lead?.at ?? 0) / 1000),
              ...given({ disarm: status.disarm }),
            },
      lrm_status: Object.fromEntries(local),
      quorum: { node: localNode, quorate: quorate() ? 1 : 0 },
    };
  }

  /** Newest last, line by line. `about`: a service or a node. */
  evidence(about: string | undefined): readonly EvidenceLine[] {
    return this.#evidence(about).flatMap(({ at, by, role, lines }) =>
      lines.map((line) => ({ at: new Date(at).toISOString(), by, role, ...line })),
    );
  }

  #evidence(about: string | undefined): readonly Evidence[] {
    const all = valuesOf(this.#deps.records, evidenceCollection).toSorted((a, b) => a.at - b.at);
    if (about === undefined) return all;
    const nodes = new Set(all.flatMap((each) => nodesOf(each, about)));
    return all.flatMap((each) => {
      const lines = each.lines.filter(
        ({ text }) =>
          mentions(text, about) ||
          [...nodes].some((node) => mentions(text, `'${node}'`)) ||
          nodes.has(each.by),
      );
      return lines.length === 0 ? [] : [{ ...each, lines }];
    });
  }

  #quorum(): Row {
    const { localNode, quorate } = this.#deps;
    const status = quorate() ? "OK" : `No quorum on node '${localNode}'!`;
    return { id: "quorum", type: "quorum", node: localNode, status, quorate: quorate() ? 1 : 0 };
  }

  #master(): readonly Row[] {
    const { records, clock } = this.#deps;
    const lead = records.collection(managerLeaseCollection).get(MANAGER_LEASE_ID)?.value;
    if (lead === undefined) return [];
    const isOld = clock.now() - lead.at > OLD_MS;
    const idle = records.collection(resourceCollection).list().length === 0;
    const state = isOld ? (idle ? "idle" : "old timestamp - dead?") : "active";
    const timestamp = Math.floor(lead.at / 1000);
    const status = `${lead.node} (${state}, ${timeText(lead.at)})`;
    return [{ id: "master", type: "master", node: lead.node, status, timestamp }];
  }

  #fencing(): readonly Row[] {
    const { disarm, masterNode } = this.#status();
    if (masterNode === undefined) return [];
    const armed =
      disarm === undefined ? this.#armed() : disarm.state === "pending" ? "disarming" : "disarmed";
    return [
      {
        id: "fencing",
        type: "fencing",
        node: this.#deps.localNode,
        status: armed,
        "armed-state": armed,
        ...given({ resource_mode: disarm?.mode }),
      },
    ];
  }

  #armed(): "armed" | "standby" {
    const { records } = this.#deps;
    const held = records.collection(leaseCollection).list();
    return held.some(({ value }) => value.holder === "node") ? "armed" : "standby";
  }

  #local(node: string): readonly Row[] {
    const { records, clock } = this.#deps;
    const { nodes, services } = this.#status();
    const report = records.collection(localCollection).get(localId(node))?.value;
    const row = { id: `lrm:${node}`, type: "lrm", node };
    if (report === undefined)
      return nodes[node] === undefined ? [] : [{ ...row, status: `${node} (unable to read lrm status)` }];
    const lease = records.collection(leaseCollection).get(leaseId(node))?.value;
    const at = lease?.at ?? clock.now();
    const isOld = lease !== undefined && lease.holder !== "nobody" && clock.now() - at > OLD_MS;
    const work = Object.values(services).filter((each) => each.node === node);
    const isIdle = work.every(({ state }) => ["stopped", "freeze", "error"].includes(state));
    const state = isOld && report.mode !== "maintenance" ? "old timestamp - dead?" : stateOf(report, isIdle);
    return [{ ...row, status: `${node} (${state}, ${timeText(at)})`, timestamp: Math.floor(at / 1000) }];
  }

  /** First what the manager knows, also of what is no resource any more; then what it has not looked at yet. */
  #services(): readonly Row[] {
    const { records } = this.#deps;
    const { services } = this.#status();
    const resources = new Map(
      records
        .collection(resourceCollection)
        .list()
        .map(({ value }) => [value.sid, value]),
    );
    const known = Object.keys(services).toSorted();
    const fresh = [...resources.keys()].filter((sid) => !known.includes(sid)).toSorted();
    return [...known, ...fresh].map((sid): Row => {
      const [service, resource] = [services[sid], resources.get(sid)];
      const guest = records.collection(guestCollection).get(sid.split(":")[1] ?? "")?.value;
      const node = service?.node ?? guest?.node ?? "---";
      const state = shownState(service, resource, guest !== undefined);
      return {
        id: `service:${sid}`,
        type: "service",
        sid,
        node,
        state,
        status: `${sid} (${node}, ${state})`,
        ...given({ crm_state: service?.state }),
        ...(resource === undefined ? {} : wishesOf(resource)),
      };
    });
  }

  #status(): ManagerStatus {
    const { records } = this.#deps;
    return records.collection(managerCollection).get(MANAGER_STATUS_ID)?.value ?? emptyManagerStatus();
  }
}

/** Of a node, in PVE's words. */
function stateOf({ mode, state }: LocalStatus, isIdle: boolean): string {
  if (mode !== "active") return `${mode} mode`;
  if (state === "maintenance") return "maintenance mode";
  return state === "wait_for_agent_lock" && isIdle ? "idle" : state;
}

/** What is on its way is said at once, before the manager has come round to it. In PVE's words. */
function shownState(
  service: ServiceStatus | undefined,
  resource: HaResource | undefined,
  isThere: boolean,
): string {
  if (resource === undefined) return "deleting";
  const { state: wanted } = resource;
  if (wanted === "ignored") return "ignored";
  if (!isThere) return "not found";
  if (service === undefined) return "queued";
  const { state } = service;
  if (state === "stopped" && wanted === "started") return "starting";
  if (state === "stopped" && wanted === "disabled") return "disabled";
  if (state === "started" && wanted !== "started") return "stopping";
  if (state === "error" && wanted === "disabled") return "clearing error flag";
  return state;
}

function wishesOf({ group, comment, ...resource }: HaResource): Row {
  return {
    request_state: resource.state,
    max_restart: resource.maxRestart,
    max_relocate: resource.maxRelocate,
    failback: resource.failback ? 1 : 0,
    "auto-rebalance": resource.autoRebalance ? 1 : 0,
    ...given({ group, comment }),
  };
}

/** Nodes that a line about it names. */
function nodesOf({ lines }: Evidence, about: string): readonly string[] {
  return lines
    .filter(({ text }) => mentions(text, about))
    .flatMap(({ text }) => [...text.matchAll(/node '([^']+)'/g)].map((match) => match[1] ?? ""));
}

function mentions(text: string, what: string): boolean {
  const at = text.indexOf(what);
  return at >= 0 && !/\d/.test(text[at + what.length] ?? "");
}

/** As C's ctime prints it. */
function timeText(ms: number): string {
  const [weekday = "", day = "", month = "", year = "", time = ""] = new Date(ms)
    .toUTCString()
    .replace(",", "")
    .split(" ");
  return `${weekday} ${month} ${String(Number(day)).padStart(2)} ${time} ${year}`;
}
