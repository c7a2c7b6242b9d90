import { expect, test } from "vitest";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { createNotYetHandlers } from "./not-yet-handlers.ts";

let quorate = true;
const handlers = createNotYetHandlers({
  localNode: "n1",
  quorate: () => quorate,
});
const all = {} as unknown as RequestContext;

test("lists of what does not exist are empty", () => {
  expect(handlers["GET /cluster/ha/groups"]?.({}, all)).toEqual([]);
  expect(handlers["GET /cluster/ha/resources"]?.({}, all)).toEqual([]);
  expect(handlers["GET /cluster/ha/rules"]?.({}, all)).toEqual([]);
  expect(handlers["GET /cluster/replication"]?.({}, all)).toEqual([]);
  expect(handlers["GET /nodes/{node}/replication"]?.({ node: "n1" }, all)).toEqual([]);
  expect(handlers["GET /nodes/{node}/subscription"]?.({ node: "n1" }, all)).toMatchObject({
    status: "notfound",
  });
});

test("single objects are missing in PVE's words", () => {
  expect(() => handlers["GET /cluster/ha/resources/{sid}"]?.({ sid: "100" }, all)).toThrow(
    "no such resource 'vm:100'",
  );
  expect(() => handlers["GET /cluster/ha/resources/{sid}"]?.({ sid: "ct:7" }, all)).toThrow("'ct:7'");
  expect(() => handlers["GET /cluster/ha/groups/{group}"]?.({ group: "g" }, all)).toThrow(
    "no such ha group 'g'",
  );
  expect(() => handlers["GET /cluster/ha/rules/{rule}"]?.({ rule: "r" }, all)).toThrow("no such ha rule 'r'");
  for (const job of [
    handlers["GET /cluster/replication/{id}"]?.bind(undefined, { id: "100-0" }, all),
    handlers["GET /nodes/{node}/replication/{id}/status"]?.bind(undefined, { node: "n1", id: "100-0" }, all),
    handlers["GET /nodes/{node}/replication/{id}/log"]?.bind(undefined, { node: "n1", id: "100-0" }, all),
  ])
    expect(job).toThrow("no such replication job '100-0'");
  expect(() => handlers["GET /cluster/metrics/server/{id}"]?.({ id: "m" }, all)).toThrow(
    "status server entry 'm' does not exist",
  );
  expect(() => handlers["GET /cluster/jobs/realm-sync/{id}"]?.({ id: "j" }, all)).toThrow(
    expect.objectContaining({ errors: { id: "No such job 'j'" } }),
  );
});

test("notifications, metric servers, ACME and synchronisation of realms have nothing to list", () => {
  const lists = Object.entries(handlers).filter(([key]) => /acme|metrics|notifications|realm-sync/.test(key));
  for (const [key, handler] of lists.filter(([each]) => !each.endsWith("}")))
    expect((handler as () => unknown)(), key).toEqual([]);
  expect(handlers["GET /cluster/ha/status/manager_status"]?.({}, all)).toEqual({
    manager_status: {},
    lrm_status: {},
    quorum: { node: "n1", quorate: 1 },
  });
});

test("shows the quorum", () => {
  expect(handlers["GET /cluster/ha/status/current"]?.({}, all)).toEqual([
    { id: "quorum", type: "quorum", node: "n1", status: "OK", quorate: 1 },
  ]);
  quorate = false;
  expect(handlers["GET /cluster/ha/status/current"]?.({}, all)).toMatchObject([{ quorate: 0 }]);
});
