import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { eventCollection, type EventInput } from "../../application/v1/events.ts";
import { startV1, type V1TestServer } from "./testing/v1-server.ts";

describe("events of one virtual cluster", () => {
  let v1: V1TestServer;
  let count = 0;
  const put = async (object: EventInput["object"], message: string): Promise<void> => {
    await v1.records.transact((tx) =>
      tx.put(eventCollection, `0000000000000000000000000${count}`, {
        type: "Normal",
        reason: "Test",
        object,
        message,
        count: 1,
        firstAt: count * 1000,
        lastAt: count * 1000,
      }),
    );
    count++;
  };
  const make = (tenant: string) =>
    v1.records.transact((tx) =>
      tx.put(vclusterCollection, "demo", {
        name: "demo",
        tenant,
        node: "n1",
        spec: readVirtualClusterSpec({}),
        madeBy: "r",
      }),
    );
  const failed = (type: string, id: string) => ({
    kind: "Task",
    name: `UPID:n1:00000001:00000001:00000001:${type}:${id}:root@pam:`,
  });
  const messages = async (path: string, as = "root@pam") => {
    const { status, body } = await v1.ask("GET", path, { as });
    const events = (body["events"] ?? []) as { readonly message: string }[];
    return [status, ...events.map(({ message }) => message)];
  };

  beforeEach(async () => {
    count = 0;
    v1 = await startV1();
    const namespace = "shop";
    await put({ kind: "VirtualCluster", name: "demo", namespace }, "of another before it");
    await put(failed("vccreate", "demo"), "of another's task");
    await make(namespace);
    await put({ kind: "VirtualCluster", name: "demo", namespace }, "runs");
    await put({ kind: "VirtualCluster", name: "other", namespace }, "another runs");
    await put({ kind: "VirtualCluster", name: "demo", namespace: "lab" }, "of another tenant");
    await put({ kind: "Node", name: "demo" }, "a node of that name");
    await put(failed("vcscale", "demo"), "no room for workers");
    await put(failed("qmstart", "demo"), "a guest");
  });
  afterEach(() => v1.close());

  test("are its phases and work on it that failed, since it was made", async () => {
    const expected = [200, "runs", "no room for workers"];
    expect(await messages("/vclusters/demo/events")).toEqual(expected);
    expect(await messages("/tenants/shop/vclusters/demo/events")).toEqual(expected);
    expect(await messages("/tenants/lab/vclusters/demo/events")).toEqual([404]);
    const { body } = await v1.ask("GET", "/vclusters/demo/events");
    expect((body["events"] as unknown[])[0]).toEqual({
      type: "Normal",
      reason: "Test",
      message: "runs",
      count: 1,
      firstAt: "1970-01-01T00:00:02.000Z",
      lastAt: "1970-01-01T00:00:02.000Z",
    });
  });

  test("are for those who may see the cluster, who need no right on nodes", async () => {
    await v1.addUser("joe@pve", { grants: [["/pool/shop", "viewer"]] });
    await v1.addUser("ann@pve", { grants: [["/pool/lab", "cluster-admin"]] });
    expect(await messages("/vclusters/demo/events", "joe@pve")).toEqual([200, "runs", "no room for workers"]);
    expect(await messages("/vclusters/demo/events", "ann@pve")).toEqual([403]);
    expect(await messages("/vclusters/nowhere/events")).toEqual([404]);
  });
});
