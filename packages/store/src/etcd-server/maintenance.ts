// etcd's Maintenance, Cluster and Auth services, as far as one member with one engine has something to say.
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import type { Auth, Cluster, Maintenance } from "../gen/proto/etcdserverpb/rpc_pb.ts";
import type { StoreUpkeep } from "../port.ts";
import { inEtcdWords, unimplemented } from "./etcd-texts.ts";
import type { ServiceDeps } from "./kv.ts";
import { type HeaderInit, RAFT_TERM, SERVED_VERSION, headerOf } from "./member.ts";

const LIST_ALARMS = 0;
const RAISE_ALARM = 1;

export function maintenanceService(deps: ServiceDeps): ServiceImpl<typeof Maintenance> {
  const { storeOf, member } = deps;
  const upkeepOf = (context: HandlerContext): StoreUpkeep => {
    const { upkeep } = storeOf(context);
    if (upkeep === undefined)
      throw unimplemented("this store is kept up where its data is, not by its clients");
    return upkeep;
  };
  return {
    status: (_request, context) =>
      inEtcdWords(async () => {
        const store = storeOf(context);
        const revision = await store.revision();
        const { bytes, usedBytes } = store.upkeep?.size() ?? { bytes: 0, usedBytes: 0 };
        return {
          header: headerOf(member, revision),
          version: SERVED_VERSION,
          dbSize: BigInt(bytes),
          dbSizeInUse: BigInt(usedBytes),
          leader: member.memberId,
          raftIndex: BigInt(revision),
          raftAppliedIndex: BigInt(revision),
          raftTerm: RAFT_TERM,
        };
      }),
    alarm: ({ action }, context) =>
      inEtcdWords(async () => {
        if (action === RAISE_ALARM) throw unimplemented("alarms are raised by the store itself");
        // A full disk refuses writes for as long as it is full: there is nothing to disarm afterwards.
        if (action !== LIST_ALARMS) storeOf(context);
        return { header: await header(deps, context), alarms: [] };
      }),
    defragment: (_request, context) =>
      inEtcdWords(async () => {
        await upkeepOf(context).defragment();
        return { header: await header(deps, context) };
      }),
    hash: (_request, context) =>
      inEtcdWords(async () => {
        const { hash } = await upkeepOf(context).hash(0);
        return { header: await header(deps, context), hash };
      }),
    hashKV: ({ revision: wanted }, context) =>
      inEtcdWords(async () => {
        const { hash, revision, compactRevision } = await upkeepOf(context).hash(Number(wanted));
        return {
          header: await header(deps, context),
          hash,
          compactRevision: BigInt(compactRevision),
          hashRevision: BigInt(revision),
        };
      }),
    // oxlint-disable-next-line require-yield -- refused before anything is sent
    async *snapshot() {
      throw await Promise.resolve(
        unimplemented(
          "a snapshot is a file of etcd's own engine, which this store does not have; back it up with: gpvectl store backup",
        ),
      );
    },
    moveLeader: refused("this store has one member: there is nobody to lead instead"),
    downgrade: refused("this store has no versions of etcd to go back to"),
  };
}

export function clusterService(deps: ServiceDeps): ServiceImpl<typeof Cluster> {
  const { memberId: id, name, clientUrls } = deps.member;
  const alone = refused("this store has one member: members are not added, changed or removed");
  return {
    memberList: (_request, context) =>
      inEtcdWords(async () => ({
        header: await header(deps, context),
        members: [{ id, name, clientUrls: [...clientUrls], peerUrls: [...clientUrls] }],
      })),
    memberAdd: alone,
    memberRemove: alone,
    memberUpdate: alone,
    memberPromote: alone,
  };
}

export function authService(deps: ServiceDeps): ServiceImpl<typeof Auth> {
  const no = refused("this store has no users and roles: its callers are told apart by how they connect");
  return {
    authStatus: (_request, context) =>
      inEtcdWords(async () => ({ header: await header(deps, context), enabled: false })),
    authenticate: async () => {
      throw await Promise.resolve(
        new ConnectError("etcdserver: authentication is not enabled", Code.FailedPrecondition),
      );
    },
    authEnable: no,
    authDisable: no,
    userAdd: no,
    userGet: no,
    userList: no,
    userDelete: no,
    userChangePassword: no,
    userGrantRole: no,
    userRevokeRole: no,
    roleAdd: no,
    roleGet: no,
    roleList: no,
    roleDelete: no,
    roleGrantPermission: no,
    roleRevokePermission: no,
  };
}

async function header({ storeOf, member }: ServiceDeps, context: HandlerContext): Promise<HeaderInit> {
  return headerOf(member, await storeOf(context).revision());
}

function refused(text: string): () => Promise<never> {
  return () => Promise.reject(unimplemented(text));
}
