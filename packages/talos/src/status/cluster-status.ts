// How a cluster is, in one look: machines, versions, etcd, nodes, certificates, the last snapshot.
import { X509Certificate } from "node:crypto";
import { balancerOf, toldOf } from "../cluster/balancer.ts";
import type { Desired } from "../engine/desired.ts";
import { routeProblem } from "../engine/default-routes.ts";
import { etcdHealth } from "../engine/quorum.ts";
import { configured, nodeOf, type SeenMachine, type World } from "../engine/world.ts";
import type { FindingId } from "../findings/catalogue.ts";
import type { ClusterLock } from "../folder/lock-file.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";

export interface MachineStatus {
  readonly name: string;
  readonly role: string;
  readonly host: string;
  readonly vmid: number | null;
  readonly address: string;
  /** "ready", "maintenance", "silent", "off", "missing", ... */
  readonly state: string;
  readonly talos: string;
  readonly kubelet: string;
  readonly etcd: string;
  readonly node: string;
}

export interface Check {
  readonly name: string;
  readonly isFine: boolean;
  readonly detail: string;
  /** What `explain` says more of. */
  readonly finding?: FindingId;
}

/** Of whoever asks, in a file of his. */
export interface OwnCertificate {
  readonly name: string;
  /** PEM. */
  readonly crt: string;
}

export interface ClusterStatus {
  readonly cluster: string;
  /** What the file says of the whole of it. */
  readonly labels: Readonly<Record<string, string>>;
  readonly at: string;
  readonly isHealthy: boolean;
  readonly wanted: { readonly talos: string; readonly kubernetes: string };
  readonly machines: readonly MachineStatus[];
  readonly checks: readonly Check[];
  readonly certificates: readonly { readonly name: string; readonly daysLeft: number }[];
  readonly snapshot: { readonly at: string; readonly file: string } | null;
  /** The last snapshot that was proven to come back. */
  readonly drill: { readonly at: string; readonly file: string } | null;
}

const DAY_MS = 86_400_000;
const SOON_DAYS = 30;

/** "environment=production, team=web" */
export const labelText = ({ labels }: Pick<ClusterStatus, "labels">): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(", ");

export function clusterStatus(
  desired: Desired,
  world: World,
  lock: ClusterLock,
  secrets: SecretsBundle | undefined,
  own: readonly OwnCertificate[] = [],
): ClusterStatus {
  const ofCluster = secrets === undefined ? [] : authorities(secrets, world.now);
  const ofPerson = own.map((each) => lasting(each, world.now));
  const certificates = [...ofCluster, ...ofPerson];
  const checks = [...clusterChecks(desired, world, ofCluster), ...accessChecks(ofPerson)];
  return {
    cluster: desired.cluster.metadata.name,
    labels: desired.cluster.metadata.labels,
    at: new Date(world.now).toISOString(),
    isHealthy: checks.every(({ isFine }) => isFine),
    wanted: { talos: desired.cluster.versions.talos, kubernetes: desired.cluster.versions.kubernetes },
    machines: [...world.machines.values()].map((seen) => machineStatus(desired, world, seen)),
    checks,
    certificates,
    snapshot:
      lock.snapshot === undefined
        ? null
        : { at: new Date(lock.snapshot.at).toISOString(), file: lock.snapshot.file },
    drill:
      lock.drill === undefined ? null : { at: new Date(lock.drill.at).toISOString(), file: lock.drill.file },
  };
}

function machineStatus(desired: Desired, world: World, seen: SeenMachine): MachineStatus {
  const machine = desired.machines.find(({ name }) => name === seen.name);
  const talos = configured(seen);
  const node = nodeOf(world, seen);
  const health = etcdHealth(world);
  return {
    name: seen.name,
    role: seen.role,
    host: seen.guest?.place.host ?? machine?.host ?? "",
    vmid: seen.guest?.place.vmid ?? null,
    address: machine?.addresses[0] ?? "",
    state: stateText(seen),
    talos: talos?.version ?? (seen.talos.state === "maintenance" ? seen.talos.version : ""),
    kubelet: node?.kubelet ?? "",
    etcd: etcdText(seen, health),
    node:
      node === undefined
        ? ""
        : `${node.isReady ? "Ready" : "NotReady"}${node.isCordoned ? ", cordoned" : ""}`,
  };
}

function stateText(seen: SeenMachine): string {
  if (seen.guest === undefined) return seen.isHidden === true ? "hidden" : "missing";
  if (seen.talos.state !== "configured") return seen.talos.state;
  return seen.talos.isReady ? "ready" : "not ready";
}

function etcdText(seen: SeenMachine, health: ReturnType<typeof etcdHealth>): string {
  const id = configured(seen)?.etcd?.id;
  if (seen.role === "worker") return "";
  if (id === undefined) return "no member";
  const state = health?.healthy.has(id) === true ? "healthy" : "not healthy";
  return health?.leader === seen.name ? `${state}, leader` : state;
}

function clusterChecks(
  desired: Desired,
  world: World,
  certificates: ClusterStatus["certificates"],
): readonly Check[] {
  const wanted = desired.machines.map(({ name }) => world.machines.get(name));
  const all = (name: string, isFine: (seen: SeenMachine | undefined) => boolean): Check => {
    const bad = desired.machines.filter((_machine, at) => !isFine(wanted[at])).map((machine) => machine.name);
    return {
      name,
      isFine: bad.length === 0,
      detail: bad.length === 0 ? `${wanted.length} of ${wanted.length}` : `not: ${bad.join(", ")}`,
    };
  };
  const health = etcdHealth(world);
  const planes = desired.machines.filter(({ role }) => role === "controlplane").length;
  const talos = desired.cluster.versions.talos.replace(/^v?/, "v");
  const expiring = certificates.filter(({ daysLeft }) => daysLeft < SOON_DAYS);
  return [
    all("machines run", (seen) => seen?.guest?.isRunning === true),
    all("Talos answers and is ready", (seen) => configured(seen)?.isReady === true),
    all(`Talos is ${talos}`, (seen) => configured(seen)?.version === talos),
    {
      name: "etcd is healthy",
      isFine: health !== undefined && health.problems.length === 0 && health.members.length === planes,
      detail:
        health === undefined
          ? "it does not run"
          : health.problems.join("; ") || `${health.members.length} of ${planes} members`,
    },
    ...balancerChecks(desired, world),
    {
      name: "the Kubernetes API answers",
      isFine: world.kubernetes !== undefined,
      detail: world.kubernetes === undefined ? "no answer at the endpoint" : "at the endpoint",
    },
    all("nodes are ready", (seen) => seen !== undefined && nodeOf(world, seen)?.isReady === true),
    ...networkChecks(desired, world),
    {
      name: "certificates are valid for a month",
      isFine: expiring.length === 0,
      detail: expiring.map(({ name, daysLeft }) => `${name}: ${daysLeft} days`).join(", ") || "yes",
    },
  ];
}

function balancerChecks({ cluster, machines }: Desired, { balancer }: World): readonly Check[] {
  const wanted = balancerOf(cluster, machines);
  if (wanted === undefined) return [];
  const isFine = balancer?.isRunning === true && toldOf(balancer.config["smbios1"]) === wanted.told;
  const seen =
    balancer === undefined ? "it is missing" : balancer.isRunning ? "it knows others" : "it is off";
  return [{ name: "the load balancer has every control plane", isFine, detail: isFine ? wanted.name : seen }];
}

/** Only of machines that tell it. */
function networkChecks({ cluster, machines }: Desired, world: World): readonly Check[] {
  const told = machines.flatMap(({ name, hostname }) => {
    const network = configured(world.machines.get(name))?.network;
    return network === undefined ? [] : [{ name, hostname, network }];
  });
  const check = (title: string, problems: readonly string[]): Check => ({
    name: title,
    isFine: problems.length === 0,
    detail: problems.join("; ") || `${told.length} of ${machines.length}`,
  });
  return [
    check(
      "machines have the names of the file",
      told.flatMap(({ name, hostname, network: { announced } }) =>
        announced === undefined || announced === hostname ? [] : [`${name} says that it is ${announced}`],
      ),
    ),
    check(
      "the way out is network.gateway",
      told.flatMap(({ name, network }) => {
        const problem = routeProblem(cluster.network, network);
        return problem === undefined ? [] : [`${name}: ${problem}`];
      }),
    ),
  ];
}

function accessChecks(certificates: ClusterStatus["certificates"]): readonly Check[] {
  if (certificates.length === 0) return [];
  const expiring = certificates.filter(({ daysLeft }) => daysLeft < SOON_DAYS);
  return [
    {
      name: "your own access is valid for a month",
      isFine: expiring.length === 0,
      detail: expiring.map(({ name, daysLeft }) => `${name}: ${daysLeft} days`).join(", ") || "yes",
      ...(expiring.length === 0 ? {} : { finding: "access-expires" }),
    },
  ];
}

function lasting({ name, crt }: OwnCertificate, now: number): ClusterStatus["certificates"][number] {
  const until = Date.parse(new X509Certificate(crt).validTo);
  return { name, daysLeft: Math.floor((until - now) / DAY_MS) };
}

function authorities({ certs }: SecretsBundle, now: number): ClusterStatus["certificates"] {
  const named = {
    "Talos' authority": certs.os,
    "Kubernetes' authority": certs.k8s,
    "etcd's authority": certs.etcd,
  };
  return Object.entries(named).map(([name, { crt }]) => lasting({ name, crt }, now));
}
