// etcd as gpve runs it itself: a member on each of the first three servers, and another one for a lost one.
import { statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { etcdMissing } from "@gpve/store/testing/etcd-cluster.ts";
import { apiOf, readCredentials } from "../support/gpve.ts";
import { EmbeddedCluster } from "../support/embedded-etcd.ts";

if (etcdMissing !== undefined) console.warn(`SKIPPED: ${etcdMissing}`);
const cluster = new EmbeddedCluster();
afterAll(() => cluster.stop());

test.skipIf(etcdMissing !== undefined)(
  "servers become members until there are three; a lost one is replaced, and nothing is lost",
  async () => {
    const s1 = await cluster.found("s1");
    expect(await cluster.members(s1)).toMatchObject([{ name: "s1", role: "voter", healthy: true }]);
    for (const file of ["etcd/pki/ca.key", "etcd/pki/member.key", "etcd/known.json"])
      expect([file, statSync(join(s1.data, file)).mode & 0o077]).toEqual([file, 0]);
    const s2 = await cluster.join("s2", s1);
    const voters = async (by: typeof s1, names: readonly string[]): Promise<void> => {
      const rows = async () =>
        (await cluster.members(by))
          .filter(({ role, healthy }) => role === "voter" && healthy)
          .map(({ name }) => name)
          .toSorted();
      await expect.poll(rows, { timeout: 150_000, interval: 500 }).toEqual(names);
    };
    await voters(s1, ["s1", "s2"]);
    const s3 = await cluster.join("s3", s2);
    await voters(s2, ["s1", "s2", "s3"]);
    expect((await cluster.pve(s1)("POST", "/pools", { poolid: "kept" })).status).toBe(200);

    // Whoever may not, sees and changes nothing.
    await cluster.pve(s1)("POST", "/access/users", { userid: "a@pve" });
    const made = await cluster.pve(s1)("POST", "/access/users/a@pve/token/tok", { privsep: 0 });
    const { value } = made.data as { value: string };
    const asUser = apiOf({ ...readCredentials(s1.data), token: `a@pve!tok=${value}` }, undefined, "/api/v1");
    expect((await asUser("GET", "/store-members")).status).toBe(403);
    expect((await asUser("DELETE", "/store-members/s3")).status).toBe(403);

    // The server's restart is nothing to its member, and a member that ends is started again.
    await s2.kill("server");
    expect((await cluster.members(s1)).every(({ healthy }) => healthy)).toBe(true);
    await s2.start();
    await s2.kill("etcd");
    await voters(s1, ["s1", "s2", "s3"]);

    // A fourth server stands by, and takes the place of one that is lost for good, the founder.
    const s4 = await cluster.join("s4", s3);
    expect((await cluster.pve(s4)("GET", "/pools")).data).toMatchObject([{ poolid: "kept" }]);
    expect(await cluster.members(s4)).toHaveLength(3);
    const refused = await cluster.v1(s4)("DELETE", "/store-members/s1");
    expect([refused.status, refused.text]).toEqual([409, expect.stringContaining("stop its server first")]);
    await s1.kill("both");
    expect((await cluster.pve(s2)("POST", "/pools", { poolid: "two-of-three" })).status).toBe(200);
    expect((await cluster.v1(s4)("DELETE", "/store-members/s1")).status).toBe(200);
    await voters(s4, ["s2", "s3", "s4"]);

    // A machine that lost its disk joins again under its name: its old member makes room by itself.
    await s3.kill("both");
    const again = await cluster.join("s3", s4);
    await voters(again, ["s2", "s3", "s4"]);
    const pools = (await cluster.pve(again)("GET", "/pools")).data as { poolid: string }[];
    expect(pools.map(({ poolid }) => poolid).toSorted()).toEqual(["kept", "two-of-three"]);
    const shown = await cluster.gpve(["ctl", "--data", again.data, "store", "members"]);
    expect(shown.stdout).toMatch(/s4\s+voter/);
  },
);
