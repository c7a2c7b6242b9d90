import { expect, test } from "vitest";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { createNotYetHandlers } from "./not-yet-handlers.ts";

const handlers = createNotYetHandlers();
const all = {} as unknown as RequestContext;

test("lists of what does not exist are empty", () => {
  expect(handlers["GET /nodes/{node}/subscription"]?.({ node: "n1" }, all)).toMatchObject({
    status: "notfound",
  });
});

test("single objects are missing in PVE's words", () => {
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
});
