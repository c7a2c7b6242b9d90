// Who answers: etcd's clients want a cluster with a member that leads it.
import { createHash } from "node:crypto";

/** Which etcd we behave like. Kubernetes asks for progress of watches only from 3.5.13 on. */
export const SERVED_VERSION = "3.5.21";

export interface ServedMember {
  readonly clusterId: bigint;
  readonly memberId: bigint;
  readonly name: string;
  readonly clientUrls: readonly string[];
}

/** The same numbers for the same name, for as long as the store lives. */
export function memberOf(name: string, clientUrls: readonly string[]): ServedMember {
  return { clusterId: numberOf(`cluster ${name}`), memberId: numberOf(`member ${name}`), name, clientUrls };
}

function numberOf(text: string): bigint {
  return createHash("sha256").update(text).digest().readBigUInt64BE();
}

/** One member never changes its leader. */
export const RAFT_TERM = 1n;

export type HeaderInit = {
  readonly clusterId: bigint;
  readonly memberId: bigint;
  readonly raftTerm: bigint;
  readonly revision: bigint;
};

export function headerOf({ clusterId, memberId }: ServedMember, revision: number): HeaderInit {
  return { clusterId, memberId, raftTerm: RAFT_TERM, revision: BigInt(revision) };
}
