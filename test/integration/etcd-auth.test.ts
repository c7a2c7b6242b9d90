// cluster.etcd.username and cluster.etcd.password, on a real etcd that asks for them.
import { existsSync } from "node:fs";
import { afterAll, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { utf8 } from "@gpve/store/keys.ts";
import { openStore } from "@gpve/store/open-store.ts";
import { etcdMissing, startEtcd, type EtcdCluster } from "@gpve/store/testing/etcd-cluster.ts";
import { apiOf } from "../support/gpve.ts";
import { startParts } from "../support/parts.ts";

const missing =
  etcdMissing ??
  (existsSync("/usr/bin/etcdctl") ? undefined : "no etcdctl; install it with: apt-get install etcd-client");
if (missing !== undefined) console.warn(`SKIPPED: ${missing}`);

let etcd: EtcdCluster | undefined;
afterAll(() => etcd?.stop());

test.skipIf(missing !== undefined)(
  "a server logs in at etcd, also anew, and says so where it may not",
  async () => {
    etcd = await startEtcd({ members: 1 });
    const { endpoints } = etcd;
    const ctl = (...args: string[]) =>
      exec("/usr/bin/etcdctl", [`--endpoints=${endpoints.join(",")}`, ...args], {
        env: { ...MINIMAL_ENV, ETCDCTL_API: "3" },
      });
    await ctl("user", "add", "root:right");
    await ctl("user", "grant-role", "root", "root");
    await ctl("auth", "enable");

    const user = { type: "etcd", endpoints, username: "root" } as const;
    const wrong = await openStore({ ...user, password: "wrong" });
    await expect(wrong.revision()).rejects.toThrow(
      "etcd does not let user 'root' in: check cluster.etcd.username and cluster.etcd.password",
    );
    await wrong.close();
    const nobody = await openStore({ type: "etcd", endpoints });
    await expect(nobody.range({ key: utf8("/a") })).rejects.toThrow(/etcd refused/);
    await nobody.close();
    await expect(openStore(user)).rejects.toThrow(/both username and password/);

    // A member that starts again has forgotten the tokens it gave.
    const store = await openStore({ ...user, password: "right" });
    const before = await store.revision();
    const [member] = etcd.members;
    await member?.kill();
    member?.start();
    expect(await store.revision()).toBeGreaterThanOrEqual(before);
    await store.close();

    const parts = await startParts({ endpoints, username: "root", password: "right" });
    try {
      const nodes = await apiOf(parts.credentials)("GET", "/nodes");
      expect(nodes.data).toMatchObject([{ node: "n1", status: "online" }]);
      expect(parts.server.output()).not.toContain('right"');
    } finally {
      await parts.stop();
    }
  },
);
