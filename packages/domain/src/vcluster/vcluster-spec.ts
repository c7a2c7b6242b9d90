// What a virtual cluster shall be. Read once, from a request's body in either shape; from then on every field is there.
import { given } from "@gpve/contracts/given.ts";
import { type Fields, fieldsOf } from "@gpve/contracts/json-object.ts";
import { formatQuantity } from "../vm/spec/quantity.ts";
import {
  type DeviceCounts,
  hasDevices,
  readDeviceCounts,
  shownDeviceCounts,
} from "./devices/worker-devices.ts";
import { type BackingStore, BACKING_STORES, readExternalEndpoints, TIER_STORES } from "./backing-store.ts";
import { requireUsableNetworks } from "./free-networks.ts";
import { invalidSpec } from "./invalid-spec.ts";
import { type OidcIssuer, readIssuer } from "./issuer.ts";
import { type ControlPlaneSize, controlPlaneSizeOf, readControlPlaneSize } from "./control-plane-size.ts";
import { cidrsOverlap, readCidr } from "./cidr.ts";
import { CNI, type Exposure, EXPOSURES, requireOwnCni } from "./cluster-network-choice.ts";
import {
  type ClusterQuota,
  readClusterQuota,
  requireWithinQuota,
  shownClusterQuota,
} from "./cluster-quota.ts";
import {
  DEFAULT_VNODE_SIZE,
  LEAST_VNODE_SIZE,
  MOST_VNODES,
  podNetwork,
  readBytes,
  readCpus,
  type VnodeSize,
} from "./vnode/vnode.ts";
import { LEAST_MACHINE_BYTES } from "./vnode/machine-size.ts";
import { readPools, shownPools, totalWorkers, type WorkerPool } from "./vnode/worker-pools.ts";
import { OFFERED_REPLICAS } from "./replicas/replica-places.ts";
import { requireWorkable } from "./kubernetes-limits.ts";
import { type Tier, TIERS } from "./tier.ts";
import { type ClusterScheduling, readClusterScheduling, shownClusterScheduling } from "./scheduling-rules.ts";
import { readSleepPolicy, type SleepPolicy, sleepPolicyOf } from "./power/sleep-policy.ts";

export const ISOLATION_LEVELS = ["L1", "L2", "L3"] as const;
export type IsolationLevel = (typeof ISOLATION_LEVELS)[number];

export interface VirtualClusterSpec extends ClusterQuota, ClusterScheduling {
  /** As asked for, "1.36" or "1.36.4"; "" = the newest that is there. */
  readonly kubernetesVersion: string;
  readonly tier: Tier;
  readonly backingStore: BackingStore;
  /** URLs of the etcd that somebody else runs. */
  readonly externalEndpoints?: readonly string[];
  /** Whom it vouches for may log in; absent: nobody but those with kubeconfigs and accounts of the cluster. */
  readonly oidc?: OidcIssuer;
  readonly replicas: number;
  /** What its control plane may take; absent: as its tier has it. */
  readonly controlPlaneSize?: ControlPlaneSize;
  readonly workers: number;
  /** Of each worker. */
  readonly workerSize: VnodeSize;
  /** Devices of its node that each worker has, by kind: an administrator's word, too; absent: none. */
  readonly devices?: DeviceCounts;
  /** Workers beside those; absent: none. */
  readonly pools?: readonly WorkerPool[];
  /** Labels that the node must have that gets it; absent: any. */
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly isolationLevel: IsolationLevel;
  /** Its pods may be root of their worker: an administrator's word, for this cluster. */
  readonly privileged?: true;
  readonly podCidr: string;
  readonly serviceCidr: string;
  readonly dnsDomain: string;
  /** nat: its pods may go out by the ways of its node; absent: they may not. */
  readonly egress?: "nat";
  /** What serves its Ingresses; absent: nothing of ours. */
  readonly ingress?: "traefik";
  /** Absent: auto. */
  readonly exposure?: Exclude<Exposure, "auto">;
  /** The storage that persistent volumes are folders of; absent: the folders of the workers. */
  readonly volumeStorage?: string;
  /** Absent: as its tier has it. */
  readonly sleep?: SleepPolicy;
  /** The node that shall have it; "" = any. */
  readonly node: string;
}

const DEFAULT_POD_CIDR = "10.244.0.0/16";
const DEFAULT_SERVICE_CIDR = "10.96.0.0/16";

export function readVirtualClusterSpec(spec: Fields): VirtualClusterSpec {
  const control = fieldsOf(spec["controlPlane"]);
  const workers = fieldsOf(spec["workerNodes"]);
  const networking = fieldsOf(spec["networking"]);
  const tier = oneOf("controlPlane.tier", control["tier"], TIERS, "Starter");
  const backingStore = oneOf(
    "controlPlane.backingStore",
    control["backingStore"],
    BACKING_STORES,
    TIER_STORES[tier].store,
  );
  requireWorkerMode(workers["mode"]);
  requireOwnCni(networking["cni"]);
  const read: VirtualClusterSpec = {
    kubernetesVersion: versionText(spec["kubernetesVersion"]),
    tier,
    backingStore,
    ...given({ externalEndpoints: readExternalEndpoints(backingStore, control) }),
    ...given({ oidc: readIssuer(control["oidc"]) }),
    replicas: count("controlPlane.replicas", control["replicas"], TIER_STORES[tier].replicas),
    ...given({ controlPlaneSize: readControlPlaneSize(fieldsOf(control["resources"]), tier) }),
    workers: count("workerNodes.count", workers["count"], 0),
    workerSize: sizeOf("workerNodes.resources", fieldsOf(workers["resources"])),
    ...given({ devices: readDeviceCounts("workerNodes.devices", workers["devices"]) }),
    ...readPools(workers["pools"], { count: (field, value) => count(field, value, 1), size: sizeOf }),
    ...readSelector(workers["nodeSelector"]),
    isolationLevel: oneOf("isolationLevel", levelText(spec["isolationLevel"]), ISOLATION_LEVELS, "L1"),
    ...(workers["privileged"] === true ? { privileged: true as const } : {}),
    podCidr: text(networking["podCIDR"]) ?? DEFAULT_POD_CIDR,
    serviceCidr: text(networking["serviceCIDR"]) ?? DEFAULT_SERVICE_CIDR,
    dnsDomain: text(networking["dnsDomain"]) ?? "cluster.local",
    ...(oneOf("networking.egress", networking["egress"], ["none", "nat"], "none") === "nat"
      ? { egress: "nat" as const }
      : {}),
    ...(oneOf("networking.ingress", networking["ingress"], ["none", "traefik"], "none") === "traefik"
      ? { ingress: "traefik" as const }
      : {}),
    ...readExposure(networking["exposure"]),
    ...readClusterQuota(fieldsOf(spec["quota"])),
    ...given({ volumeStorage: text(fieldsOf(spec["volumes"])["storage"]) }),
    sleep: readSleepPolicy(spec["sleep"], tier),
    ...readClusterScheduling(fieldsOf(spec["scheduling"])),
    node: text(spec["node"]) ?? "",
  };
  requireNetworks(read);
  requireOffered(read);
  return read;
}

/** As /api/v1 shows it. */
export function shownVirtualClusterSpec(spec: VirtualClusterSpec): Fields {
  return {
    // Unsaid: the newest that the node has.
    ...(spec.kubernetesVersion === "" ? {} : { kubernetesVersion: spec.kubernetesVersion }),
    controlPlane: {
      tier: spec.tier,
      backingStore: spec.backingStore,
      replicas: spec.replicas,
      resources: shownSize(controlPlaneSizeOf(spec)),
      ...given({ externalEtcdEndpoint: spec.externalEndpoints?.join(",") }),
      ...(spec.oidc === undefined ? {} : { oidc: { ...spec.oidc } }),
    },
    workerNodes: {
      mode: "private",
      count: spec.workers,
      resources: shownSize(spec.workerSize),
      ...shownDeviceCounts(spec),
      ...shownPools(spec),
      ...(spec.nodeSelector === undefined ? {} : { nodeSelector: { ...spec.nodeSelector } }),
      ...given({ privileged: spec.privileged }),
    },
    isolationLevel: spec.isolationLevel,
    networking: {
      podCIDR: spec.podCidr,
      serviceCIDR: spec.serviceCidr,
      dnsDomain: spec.dnsDomain,
      cni: CNI,
      exposure: spec.exposure ?? "auto",
      ...given({ egress: spec.egress, ingress: spec.ingress }),
    },
    ...given({ quota: shownClusterQuota(spec) }),
    ...(spec.volumeStorage === undefined ? {} : { volumes: { storage: spec.volumeStorage } }),
    sleep: { ...(spec.sleep ?? sleepPolicyOf(spec.tier)) },
    ...given({ scheduling: shownClusterScheduling(spec) }),
    ...(spec.node === "" ? {} : { node: spec.node }),
  };
}

function shownSize({ cpus, memoryBytes }: VnodeSize): Fields {
  return { cpu: String(cpus), memory: formatQuantity(memoryBytes) };
}

/** What this release does not do yet is refused, with what it does. */
function requireOffered(spec: VirtualClusterSpec): void {
  const { replicas, isolationLevel, podCidr, spread, pools } = spec;
  const workers = totalWorkers(spec);
  // Nodes would not agree on whose worker has which place.
  if ((spread === true || replicas > 1) && pools !== undefined)
    throw invalidSpec(
      "workerNodes.pools",
      "pools of a cluster that is spread over nodes are not offered by this release: leave out scheduling.spread, ask for 1 replica, or leave out the pools",
    );
  // Whoever runs the store can write pods past the guard, and a pod that may be anything is root of the node.
  if (spec.backingStore === "external" && workers > 0)
    throw invalidSpec(
      "workerNodes.count",
      "workers are not offered with backingStore external: nobody judges what is written into that store; ask for 0, or for another store",
    );
  if (replicas !== 1) requireReplicas(spec);
  // Whether nodes have Kata is known where it is placed.
  if (isolationLevel === "L2" && spread === true)
    throw invalidSpec(
      "scheduling.spread",
      "workers of level L2 on several nodes are not offered by this release: leave it out, or ask for L1",
    );
  if (isolationLevel === "L2" && spec.privileged === true)
    throw invalidSpec(
      "workerNodes.privileged",
      "pods of level L2 are machines that would get devices of the node: leave it out, or ask for L1 or L3",
    );
  if (isolationLevel === "L3") requireMachines(spec);
  if (hasDevices(spec)) requireWorkersWithDevices(spec);
  requireWithinQuota(spec);
  if (workers > MOST_VNODES)
    throw invalidSpec("workerNodes.count", `a node has room for ${MOST_VNODES} workers of a cluster`);
  if (workers > 0 && podNetwork(podCidr, workers - 1) === undefined)
    throw invalidSpec("workerNodes.count", `${podCidr} has no room for the pods of ${workers} workers`);
}

/** What one that is there may be and a new one may not. */
export function requireNewCluster(spec: VirtualClusterSpec): void {
  requireUsableNetworks(spec);
  requireWorkable(spec);
  if (spec.sleep?.fromStart === true && (totalWorkers(spec) > 0 || spec.replicas !== 1))
    throw invalidSpec(
      "sleep.fromStart",
      "workers and replicas come to an API that answers: leave it out, or make the cluster without them and scale it later",
    );
}

/** Devices are of one node, and of its kernel. */
function requireWorkersWithDevices({ isolationLevel, replicas, spread, devices }: VirtualClusterSpec): void {
  const field = devices === undefined ? "workerNodes.pools" : "workerNodes.devices";
  if (isolationLevel !== "L1")
    throw invalidSpec(
      field,
      `pods of level ${isolationLevel} have a kernel of their own, which knows nothing of the node's devices: leave devices out, or ask for L1`,
    );
  if (spread === true || replicas > 1)
    throw invalidSpec(
      field,
      "devices for workers on several nodes are not offered by this release: leave out scheduling.spread, ask for 1 replica, or leave the devices out",
    );
}

/** Workers that are machines do not do yet all that others do. */
function requireMachines(spec: VirtualClusterSpec): void {
  const { spread, workerSize, pools = [], ingress } = spec;
  if (spec.volumeStorage !== undefined)
    throw invalidSpec(
      "volumes.storage",
      "volumes of level L3 are on the disks of its machines: leave it out, or ask for L1",
    );
  if (ingress !== undefined)
    throw invalidSpec(
      "networking.ingress",
      "level L3 has no controller for Ingresses in this release: leave it out, install one of yours, or ask for L1",
    );
  if (spread === true)
    throw invalidSpec(
      "scheduling.spread",
      "workers of level L3 on several nodes are not offered by this release: leave it out, or ask for L1",
    );
  const groups = [{ field: "workerNodes.resources", size: workerSize }].concat(
    pools.map(({ size }, at) => ({ field: `workerNodes.pools[${at}].resources`, size })),
  );
  for (const { field, size } of groups)
    if (size.memoryBytes < LEAST_MACHINE_BYTES)
      throw invalidSpec(
        `${field}.memory`,
        `a worker of level L3 is a machine with a kernel of its own: at least ${formatQuantity(LEAST_MACHINE_BYTES)}`,
      );
}

/** Replicas are members of an etcd of their own, and not all that others can do is done for several of them. */
function requireReplicas(spec: VirtualClusterSpec): void {
  const { replicas, backingStore } = spec;
  if (replicas !== OFFERED_REPLICAS)
    throw invalidSpec(
      "controlPlane.replicas",
      `a control plane has 1 replica or ${OFFERED_REPLICAS}, which survive the loss of one; ${replicas} are not offered`,
    );
  if (backingStore !== "etcd")
    throw invalidSpec(
      "controlPlane.backingStore",
      `${replicas} replicas have their objects in an etcd of their own, one member each: say etcd, or ask for 1 replica`,
    );
  const { mode } = spec.sleep ?? sleepPolicyOf(spec.tier);
  if (mode !== "none")
    throw invalidSpec(
      "sleep.mode",
      `a cluster of ${replicas} replicas does not sleep: say none, or ask for 1`,
    );
}

function requireNetworks({ podCidr, serviceCidr, dnsDomain }: VirtualClusterSpec): void {
  const [pods, services] = [readCidr(podCidr), readCidr(serviceCidr)];
  if (pods === undefined) throw invalidSpec("networking.podCIDR", `'${podCidr}' is no IPv4 network`);
  if (services === undefined)
    throw invalidSpec("networking.serviceCIDR", `'${serviceCidr}' is no IPv4 network`);
  if (pods.prefix > 22) throw invalidSpec("networking.podCIDR", "has room for less than four workers");
  if (services.prefix < 12 || services.prefix > 24)
    throw invalidSpec("networking.serviceCIDR", "must be between a /12 and a /24");
  if (cidrsOverlap(pods, services))
    throw invalidSpec("networking.serviceCIDR", `overlaps the pods' ${podCidr}`);
  if (!/^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/.test(dnsDomain))
    throw invalidSpec("networking.dnsDomain", `'${dnsDomain}' is no domain`);
}

function requireWorkerMode(mode: unknown): void {
  const word = typeof mode === "string" ? mode.toLowerCase() : mode;
  if (word === undefined || word === "private" || word === "kubelet-in-netns") return;
  if (typeof mode === "string" && /^virtual[-_ ]?kubelet$/i.test(mode))
    throw invalidSpec(
      "workerNodes.mode",
      "virtual-kubelet workers are not offered: pods of such a worker behave unlike Kubernetes' own (docs/adr/0011-virtual-clusters.md); use private",
    );
  throw invalidSpec("workerNodes.mode", "must be private");
}

function versionText(value: unknown): string {
  const version = (text(value) ?? "").replace(/^v/, "");
  if (version === "" || /^\d+\.\d+(\.\d+)?([+-][0-9A-Za-z.+-]+)?$/.test(version)) return version;
  throw invalidSpec("kubernetesVersion", `'${version}' is no version such as 1.36 or 1.36.4`);
}

/** Any letter case, as the words are written in many places. */
function oneOf<T extends string>(field: string, value: unknown, words: readonly T[], otherwise: T): T {
  if (value === undefined) return otherwise;
  const wanted = typeof value === "string" ? value.toLowerCase() : undefined;
  const found = words.find((word) => word.toLowerCase() === wanted);
  if (found !== undefined) return found;
  throw invalidSpec(field, `must be one of ${words.join(", ")}`);
}

/** "L2", "l2", "L2_Kata". */
function levelText(value: unknown): unknown {
  return typeof value === "string" ? value.split("_", 1)[0] : value;
}

function count(field: string, value: unknown, otherwise: number): number {
  if (value === undefined) return otherwise;
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= 1000) return value;
  throw invalidSpec(field, "must be a whole number from 0 to 1000");
}

function sizeOf(field: string, resources: Fields): VnodeSize {
  const cpus = resources["cpu"] === undefined ? DEFAULT_VNODE_SIZE.cpus : readCpus(resources["cpu"]);
  if (cpus === undefined || cpus < LEAST_VNODE_SIZE.cpus)
    throw invalidSpec(`${field}.cpu`, "must be CPUs, such as 2 or 500m, and at least 250m");
  const memory = resources["memory"];
  const memoryBytes = memory === undefined ? DEFAULT_VNODE_SIZE.memoryBytes : readBytes(memory);
  if (memoryBytes === undefined || memoryBytes < LEAST_VNODE_SIZE.memoryBytes)
    throw invalidSpec(`${field}.memory`, "must be bytes, such as 2Gi, and at least 256Mi");
  return { cpus, memoryBytes };
}

function readExposure(value: unknown): Pick<VirtualClusterSpec, "exposure"> {
  const exposure = oneOf("networking.exposure", value, EXPOSURES, "auto");
  return exposure === "auto" ? {} : { exposure };
}

function readSelector(value: unknown): Pick<VirtualClusterSpec, "nodeSelector"> {
  const entries = Object.entries(fieldsOf(value));
  if (entries.length === 0) return {};
  if (entries.some(([, wanted]) => typeof wanted !== "string"))
    throw invalidSpec("workerNodes.nodeSelector", "must be labels of nodes and their values");
  return { nodeSelector: Object.fromEntries(entries) as Record<string, string> };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
