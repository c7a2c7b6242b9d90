import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { NewVclusterRequest } from "@gpve/contracts/agent/agent-messages.ts";
import { messageFault } from "@gpve/contracts/agent/check-message.ts";
import {
  type ClusterIdentity,
  findClusterKey,
  newClusterKey,
  nodeWords,
  requireOwnServerName,
  tenantKey,
} from "./cluster-key.ts";
import { vclusterCollection, type VirtualClusterRecord } from "./vcluster-record.ts";
import { readVirtualClusterSpec } from "./vcluster-spec.ts";

const digest = (text: string) => createHash("sha256").update(text).digest();
const NAME = /^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$/;
const identity = fc.record({
  name: fc.stringMatching(NAME),
  tenant: fc.stringMatching(/^[A-Za-z0-9._-]{1,8}(\/[A-Za-z0-9._-]{1,8}){0,2}$/),
});

describe("keys of virtual clusters", () => {
  test("are names of folders, of sockets' paths and of processes, and never a name", () => {
    fc.assert(
      fc.property(identity, (cluster) => {
        const key = tenantKey(cluster, digest);
        expect(key).toMatch(/^0-[a-z0-9-]{0,29}[a-z0-9]$/);
        expect(key).not.toMatch(NAME);
      }),
    );
  });

  test("are taken by nodes, with the name beside them and never in place of it", () => {
    const fault = (words: object) =>
      messageFault(NewVclusterRequest, { node: "n1", spec: {}, requestId: "r", ...words });
    fc.assert(
      fc.property(identity, ({ name, tenant }) => {
        const key = tenantKey({ name, tenant }, digest);
        expect(fault(nodeWords({ name, tenant, key }))).toBeUndefined();
      }),
    );
    expect(fault({ vcluster: "demo", tenant: "default" })).toBeUndefined();
    for (const called of ["0-demo-x", "../demo", "Demo"])
      expect(fault({ vcluster: "0-demo-x", called, tenant: "a" })).toContain("called");
  });

  test("tell tenants apart, and names that begin alike", () => {
    const long = "a-name-as-long-as-they-may-be-0";
    const all = [
      { tenant: "a", name: "demo" },
      { tenant: "A", name: "demo" },
      { tenant: "a/b", name: "demo" },
      { tenant: "a.b", name: "demo" },
      { tenant: "a", name: long },
      { tenant: "a", name: `${long}x` },
    ];
    expect(new Set(all.map((each) => tenantKey(each, digest))).size).toBe(all.length);
    expect(tenantKey({ tenant: "a", name: "demo" }, digest)).toBe("0-demo-au2lyy3xanxc");
  });

  test("whatever is made in whatever order, each is found again by its tenant and name, and nobody else's", () => {
    const some = fc.record({
      name: fc.constantFrom("demo", "demo-2"),
      tenant: fc.constantFrom("default", "shop", "lab", "lab/eu"),
      // Made when names were everybody's.
      isOld: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(some, { maxLength: 12 }), (wishes) => {
        const kept = new Map<string, ClusterIdentity>();
        const lookup = (key: string) => kept.get(key);
        for (const { isOld, ...wish } of wishes) {
          if (findClusterKey(wish, lookup, digest) !== undefined) continue;
          const key = isOld && !kept.has(wish.name) ? wish.name : newClusterKey(wish, lookup, digest);
          expect(kept.has(key)).toBe(false);
          kept.set(key, wish);
        }
        for (const [key, cluster] of kept) expect(findClusterKey(cluster, lookup, digest)).toBe(key);
      }),
    );
  });

  test("are what nodes are told, with the name where that is another", () => {
    expect(nodeWords({ name: "demo", tenant: "default" })).toEqual({ vcluster: "demo", tenant: "default" });
    expect(nodeWords({ name: "demo", tenant: "a", key: "0-demo-x" })).toEqual({
      vcluster: "0-demo-x",
      tenant: "a",
      called: "demo",
    });
  });

  test("two that would be asked for by one name at a port are not both made", () => {
    const all = [{ tenant: "lab/eu", name: "demo" }] as VirtualClusterRecord[];
    const wanted =
      (tenant: string, name = "demo") =>
      () =>
        requireOwnServerName({ tenant, name }, all);
    expect(wanted("lab.eu")).toThrow("demo.lab.eu.vc.gpve, which is another's already");
    expect(wanted("LAB/eu")).toThrow("choose another name");
    for (const fine of [wanted("lab/eu"), wanted("lab"), wanted("lab.eu", "other")])
      expect(fine).not.toThrow();
  });

  test("a record of before has none, and reads as it was written", () => {
    const record = { name: "demo", tenant: "a", node: "n1", spec: readVirtualClusterSpec({}), madeBy: "r" };
    expect(vclusterCollection.decode(JSON.parse(JSON.stringify(record)))).toEqual(record);
    const keyed = { ...record, key: "0-demo-x" };
    expect(vclusterCollection.decode(JSON.parse(JSON.stringify(keyed)))).toEqual(keyed);
  });
});
