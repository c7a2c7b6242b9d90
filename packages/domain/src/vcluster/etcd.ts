// The etcd of one virtual cluster, and which processes there are beside it: pure, from where its files lie.
import { given } from "@gpve/contracts/given.ts";
import type { ClusterCertificate } from "./certificates.ts";
import { API_BALANCER, type ClusterPart, CONTROL_PLANE_PARTS } from "./cluster-part.ts";
import type { PartCommand } from "./control-plane.ts";
import { type ClusterOverlay, isBranch, replicaSlot } from "./overlay.ts";
import { type EtcdPairStart, pairPeerUrl, pairStart } from "./standby/etcd-pair.ts";
import type { VirtualClusterSpec } from "./vcluster-spec.ts";

const ETCD_PARTS: readonly ClusterPart[] = ["etcd", ...CONTROL_PLANE_PARTS];
/** It needs nothing of the others here, and workers need it also while these do not come up. */
const REPLICA_PARTS: readonly ClusterPart[] = [API_BALANCER, ...ETCD_PARTS];

export const ETCD_PORT = 2379;
const PEER_PORT = 2380;
/** etcd's own limit is 2 GiB; it advises against more than this. */
const QUOTA_BYTES = 8 * 2 ** 30;

export interface EtcdPlace {
  /** Where it listens: the control plane's own. */
  readonly address: string;
  readonly pki: (file: string) => string;
  /** Whom it trusts: the name of a file; absent: its own authority. */
  readonly trust?: string;
  readonly dataFolder: string;
  /** Where it is one of several replicas'; absent: it is that of a single control plane. */
  readonly member?: EtcdMembership;
  /** Of a single control plane, which can have a standby; absent: the first member, which has none. */
  readonly pair?: EtcdPairStart;
}

export interface EtcdMembership {
  readonly name: string;
  /** All that there are when it starts for the first time, itself too, as etcd writes them; absent: it is the first. */
  readonly initialCluster?: string;
}

/** The processes of a cluster, in the order in which they are started; they are stopped in the opposite one. */
export function partsOf(cluster: {
  readonly spec: Pick<VirtualClusterSpec, "backingStore">;
  readonly overlay?: ClusterOverlay;
}): readonly ClusterPart[] {
  if (isBranch(cluster)) return [];
  if (replicaSlot(cluster.overlay) !== undefined) return REPLICA_PARTS;
  return cluster.spec.backingStore === "etcd" ? ETCD_PARTS : CONTROL_PLANE_PARTS;
}

export function readClusterPart(text: string | undefined): ClusterPart | undefined {
  return REPLICA_PARTS.find((part) => part === text);
}

export function etcdUrl(address: string): string {
  return `https://${address}:${ETCD_PORT}`;
}

export function etcdPeerUrl(address: string): string {
  return `https://${address}:${PEER_PORT}`;
}

/** Nobody comes in without a certificate of its own authority: pods of the cluster reach the address too. */
export function etcdCommand({
  address,
  pki,
  trust = "etcd-ca.crt",
  dataFolder,
  member,
  pair = pairStart({}),
}: EtcdPlace): PartCommand {
  const [ca, cert, key] = [pki(trust), pki("etcd.crt"), pki("etcd.key")];
  const name = member?.name ?? pair.name;
  const peer = member === undefined ? pairPeerUrl(name) : etcdPeerUrl(address);
  return {
    args: [
      ...memberArgs({ ...given({ initialCluster: member?.initialCluster }), name, peer, dataFolder }),
      `--listen-client-urls=${etcdUrl(address)}`,
      `--advertise-client-urls=${etcdUrl(address)}`,
      "--client-cert-auth=true",
      `--trusted-ca-file=${ca}`,
      `--cert-file=${cert}`,
      `--key-file=${key}`,
      ...(member === undefined
        ? []
        : [
            "--peer-client-cert-auth=true",
            `--peer-trusted-ca-file=${ca}`,
            `--peer-cert-file=${cert}`,
            `--peer-key-file=${key}`,
          ]),
      ...(member === undefined && pair.alone !== undefined ? ["--force-new-cluster"] : []),
    ],
    files: [ca, cert, key],
  };
}

/** Of one that only follows, on a node that has nothing else of the cluster: it is asked through a socket too. */
export function followerCommand(place: {
  readonly name: string;
  readonly initialCluster: string;
  readonly dataFolder: string;
}): readonly string[] {
  const client = pairPeerUrl(FOLLOWER_CLIENT);
  return [
    ...memberArgs({ ...place, peer: pairPeerUrl(place.name) }),
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
  ];
}

/** Where it is asked. */
export const FOLLOWER_CLIENT = "client";

function memberArgs({
  name,
  peer,
  initialCluster,
  dataFolder,
}: {
  readonly name: string;
  readonly peer: string;
  readonly initialCluster?: string;
  readonly dataFolder: string;
}): readonly string[] {
  return [
    `--name=${name}`,
    `--data-dir=${dataFolder}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=${initialCluster ?? `${name}=${peer}`}`,
    `--initial-cluster-state=${initialCluster === undefined ? "new" : "existing"}`,
    `--quota-backend-bytes=${QUOTA_BYTES}`,
    "--log-level=warn",
  ];
}

export function etcdCertificates(address: string): readonly ClusterCertificate[] {
  return [
    // It speaks to itself with it too.
    { name: "etcd", by: "etcd-ca", commonName: "etcd", usage: "both", names: ["localhost", address] },
    {
      name: "apiserver-etcd-client",
      by: "etcd-ca",
      commonName: "kube-apiserver-etcd-client",
      usage: "client",
    },
  ];
}
