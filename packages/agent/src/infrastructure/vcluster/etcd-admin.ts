// Who belongs to an etcd, through the JSON side of its API.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { EtcdMember } from "@gpve/domain/vcluster/replicas/member-plan.ts";
import { type KubeAnswer, kubeCall, type KubeCredentials } from "./kube-api.ts";

const ASK_MS = 3_000;
/** What is done after all is seen when they are asked again. */
const CHANGE_MS = 5_000;

/** As that member has it, also when it cannot ask the others; undefined = it does not say. */
export async function listMembers(
  at: KubeCredentials,
  signal: AbortSignal,
): Promise<readonly EtcdMember[] | undefined> {
  const { status, body } = await call(at, "cluster/member/list", {}, ASK_MS, signal);
  return status === 200 ? readMembers(body) : undefined;
}

export interface MemberStatus {
  readonly ownId: string;
  /** Nobody answers writes without one. */
  readonly leaderId: string | undefined;
  readonly revision: number;
}

export async function memberStatus(
  at: KubeCredentials,
  signal: AbortSignal,
): Promise<MemberStatus | undefined> {
  const { status, body } = await call(at, "maintenance/status", {}, ASK_MS, signal);
  return status === 200 ? readStatus(body) : undefined;
}

export function readStatus(text: string): MemberStatus | undefined {
  const { header, leader } = JSON.parse(text) as {
    header?: { readonly member_id?: string; readonly revision?: string };
    leader?: string;
  };
  if (header?.member_id === undefined) return undefined;
  const leaderId = leader === undefined || leader === "0" ? undefined : leader;
  return { ownId: header.member_id, leaderId, revision: Number(header.revision ?? 0) };
}

/** What it says where it does not do it now: another is joining, it has not got all yet, the majority is away. */
export async function changeMembers(
  at: KubeCredentials,
  what: "add" | "remove" | "promote" | "update",
  body: unknown,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const { status, body: answer } = await call(at, `cluster/member/${what}`, body, CHANGE_MS, signal);
    return status === 200 ? undefined : `${what}: ${status} ${answer.slice(0, 300)}`;
  } catch (err) {
    signal.throwIfAborted();
    return `${what}: ${messageOf(err)}`;
  }
}

function call(
  at: KubeCredentials,
  path: string,
  body: unknown,
  patienceMs: number,
  signal: AbortSignal,
): Promise<KubeAnswer> {
  const soon = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]);
  return kubeCall(at, { method: "POST", path: `/v3/${path}`, body }, soon);
}

function readMembers(text: string): readonly EtcdMember[] {
  const { members = [] } = JSON.parse(text) as {
    members?: readonly {
      readonly ID: string;
      readonly name?: string;
      readonly peerURLs?: readonly string[];
      readonly isLearner?: boolean;
    }[];
  };
  return members.map(({ ID, name = "", peerURLs = [], isLearner = false }) => ({
    id: ID,
    name,
    peerUrls: peerURLs,
    isLearner,
  }));
}
