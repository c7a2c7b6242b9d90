import { afterAll, describe } from "vitest";
import { etcdMissing, startEtcd, type EtcdCluster } from "@gpve/store/testing/etcd-cluster.ts";
import { startParts, type Parts } from "../../support/parts.ts";
import { defineApiSuite } from "./suite.ts";

const hasEtcd = etcdMissing === undefined;
if (!hasEtcd) console.warn(`SKIPPED: ${etcdMissing}`);

const open: { etcd: EtcdCluster; parts: Parts }[] = [];
afterAll(async () => {
  for (const { etcd, parts } of open) {
    await parts.stop();
    await etcd.stop();
  }
});

async function start(members: number, tls: boolean): Promise<{ etcd: EtcdCluster; parts: Parts }> {
  const etcd = await startEtcd({ members, tls });
  const parts = await startParts({
    endpoints: etcd.endpoints,
    ...(etcd.tls === undefined
      ? {}
      : { caFile: etcd.tls.caFile, certFile: etcd.tls.certFile, keyFile: etcd.tls.keyFile }),
  });
  open.push({ etcd, parts });
  return { etcd, parts };
}

describe.skipIf(!hasEtcd)("the API on one etcd, server and agent apart", () => {
  defineApiSuite(async () => ({ credentials: (await start(1, true)).parts.credentials }));
});

describe.skipIf(!hasEtcd)("the API on three etcds of which one is killed halfway", () => {
  defineApiSuite(async () => {
    const { etcd, parts } = await start(3, false);
    return { credentials: parts.credentials, halfway: async () => etcd.members[0]?.kill() };
  });
});
