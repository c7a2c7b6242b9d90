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
  expect(() => handlers["GET /cluster/replication/{id}"]?.({ id: "100-0" }, all)).toThrow("no such job");
});

test("shows the quorum", () => {
  expect(handlers["GET /cluster/ha/status/current"]?.({}, all)).toEqual([
    { id: "quorum", type: "quorum", node: "n1", status: "OK", quorate: 1 },
  ]);
  quorate = false;
  expect(handlers["GET /cluster/ha/status/current"]?.({}, all)).toMatchObject([{ quorate: 0 }]);
});
