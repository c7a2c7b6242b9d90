// The members of a server's etcd, for whoever asks the server.
import { readFileSync } from "node:fs";
import { given } from "@gpve/contracts/given.ts";
import type { StoreMembersPort } from "@gpve/server/application/cluster/store-members.ts";
import { MemberCalls, linksWith, type MemberHealth } from "@gpve/store/etcd/members.ts";
import type { StoreConfig } from "@gpve/store/open-store.ts";

export function storeMembers(config: StoreConfig, isEmbedded: boolean): StoreMembersPort | undefined {
  if (config.type !== "etcd") return undefined;
  const { endpoints, caFile, certFile, keyFile, username, password } = config;
  const read = (file: string | undefined): Uint8Array | undefined =>
    file === undefined ? undefined : readFileSync(file);
  const tls = given({ ca: read(caFile), cert: read(certFile), key: read(keyFile) });
  const user = username === undefined || password === undefined ? undefined : { username, password };
  const members = new MemberCalls(linksWith({ tls, user }));
  const urls = (): readonly string[] => config.members?.current() ?? endpoints;
  return {
    isEmbedded,
    list: async () => (await members.health(urls())).map(shown),
    remove: (id) => members.remove(urls(), BigInt(`0x${id}`)),
  };
}

function shown(member: MemberHealth): Awaited<ReturnType<StoreMembersPort["list"]>>[number] {
  const { id, name, clientUrls, peerUrls, isLearner, isLeader, problem, version, bytes } = member;
  return {
    id: id.toString(16),
    name,
    role: isLearner ? "learner" : "voter",
    leader: isLeader,
    healthy: problem === undefined,
    clientUrls: [...clientUrls],
    peerUrls: [...peerUrls],
    ...given({ problem, version, bytes }),
  };
}
