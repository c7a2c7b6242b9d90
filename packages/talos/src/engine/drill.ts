// A restore drill: a snapshot is worth what was once brought back from it. A scratch cluster of one control plane, with
// the same secrets and nothing else of the cluster, begins its etcd from the snapshot; then it is looked at and deleted.
import { createHash } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { parse, stringify } from "yaml";
import type { Kubernetes } from "../kubernetes/kubernetes.ts";
import type { OpenCluster } from "./open-cluster.ts";
import type { ClusterLock } from "../folder/lock-file.ts";
import { etcdHealth } from "./quorum.ts";
import type { StepReport } from "./run-apply.ts";

export interface DrillPlace {
  /** Of the scratch machine; nobody may have it. */
  readonly address: string;
  readonly vmid: number;
  /** A network of its own keeps what comes back apart from what runs. */
  readonly bridge: string | undefined;
}

export const drillName = (cluster: string): string => `${cluster}-drill`;
export const drillMachine = (cluster: string): string => `${drillName(cluster)}-cp-1`;

type Tree = Readonly<Record<string, unknown>>;

/**
 * The file of the scratch cluster, from the cluster's own. It must not find the machines that it shares secrets with:
 * no discovery, no KubeSpan, no VIP, and its own address as the endpoint.
 */
export function drillFile(text: string, { address, vmid, bridge }: DrillPlace): string {
  const tree = parse(text) as Tree;
  const of = (key: string): Tree => (tree[key] ?? {}) as Tree;
  const name = String(of("metadata")["name"]);
  const { port } = of("endpoint");
  return stringify({
    ...tree,
    metadata: { ...of("metadata"), name: drillName(name) },
    // No DHCP server knows the scratch machine.
    network: { ...of("network"), addressing: "static", ...given({ bridge }) },
    endpoint: { ...given({ port }) },
    controlPlane: { ...of("controlPlane"), count: 1, schedulable: false },
    pools: [],
    templates: {},
    nodes: { [drillMachine(name)]: { ip: address, vmid } },
    talos: { ...of("talos"), discovery: { enabled: false }, kubespan: false },
    addons: NO_ADDONS,
    protect: { destroy: false, minWorkers: 0 },
  });
}

/** What is in the snapshot comes up by itself; nothing is installed. */
const NO_ADDONS = {
  cni: { type: "none" },
  ccm: { proxmox: { enabled: false }, talos: { enabled: false } },
  metricsServer: false,
  monitoring: { prometheusCRDs: false },
};

export interface DrillRequest {
  readonly scratch: OpenCluster;
  readonly kubernetes: Kubernetes;
  readonly machine: string;
  readonly snapshot: Buffer;
  /** What the cluster's own images are held to. */
  readonly images?: ClusterLock["images"];
  /** Nodes of the cluster that the snapshot is of. */
  readonly nodes: readonly string[];
  readonly now: () => number;
  /** The scratch machine stays, to be looked at. */
  readonly keeps: boolean;
  readonly report?: (report: StepReport) => void;
  readonly signal?: AbortSignal;
}

export interface DrillResult {
  readonly sha256: string;
  readonly kubernetes: string;
  /** Of the cluster, as the snapshot has them. */
  readonly knownNodes: readonly string[];
}

/** Stopped anywhere, the next drill with the same snapshot goes on; with another one it begins anew. */
export async function runDrill(request: DrillRequest): Promise<DrillResult> {
  const { scratch, machine, snapshot, now, keeps, images } = request;
  const sha256 = createHash("sha256").update(snapshot).digest("hex");
  const options = given({ report: request.report, signal: request.signal });
  if (scratch.lock.restoring !== sha256) {
    await scratch.destroy(request.report);
    const doneAt = new Date(now()).toISOString();
    // As a cluster that lost its etcd: apply makes the machine, and begins nothing.
    scratch.change((lock) => ({
      ...lock,
      restoring: sha256,
      beginning: { machine, doneAt },
      ...given({ images }),
    }));
  }
  const made = await scratch.apply(options);
  const isEmpty = made.findings.length > 0 && made.findings.every(({ id }) => id === "etcd-lost");
  if (isEmpty) await scratch.restore(snapshot);
  const { findings } = isEmpty ? await scratch.apply(options) : made;
  if (findings.length > 0) {
    const why = findings.map(({ id, evidence }) => `${id} (${evidence})`).join("; ");
    throw failed(`the scratch cluster does not come up: ${why}`);
  }
  const result = { sha256, ...(await looked(request)) };
  if (!keeps) await scratch.destroy(request.report);
  return result;
}

async function looked({ scratch, kubernetes, nodes, machine }: DrillRequest) {
  const health = etcdHealth(await scratch.observe());
  if (health?.members.length !== 1 || health.problems.length > 0) {
    throw failed(
      `etcd of ${machine} has ${health?.members.length ?? 0} members: ${health?.problems.join("; ")}`,
    );
  }
  const known = (await kubernetes.nodes()).map(({ name }) => name);
  const knownNodes = nodes.filter((name) => known.includes(name));
  if (knownNodes.length === 0) {
    throw failed(
      `Kubernetes came up from it, but knows none of ${nodes.join(", ")}: it is another cluster's`,
    );
  }
  return { kubernetes: await kubernetes.version(), knownNodes };
}

const failed = (message: string): AppError =>
  new AppError("operation.failed", message, {
    data: {
      finding: "drill-failed",
      next: "The scratch machine was left as it is, to be looked at. Take a new snapshot and drill it.",
    },
  });
