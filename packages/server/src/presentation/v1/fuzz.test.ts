import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { v1Routes } from "@gpve/contracts/v1/routes.ts";
import { startV1 } from "./testing/v1-server.ts";
import type { V1TestServer } from "./testing/v1-server.ts";

// GPVE_FUZZ_RUNS=20000 for a long run.
const runs = Number(process.env["GPVE_FUZZ_RUNS"] ?? 400);
let v1: V1TestServer;
beforeAll(async () => {
  v1 = await startV1();
  await v1.addUser("joe@pve", {
    groups: ["g"],
    grants: [
      ["/pool/a", "PVEPoolAdmin"],
      ["/access/groups/g", "PVEUserAdmin"],
    ],
  });
});
afterAll(() => v1.close());

const names = fc.constantFrom(
  "a",
  "a/b",
  "joe@pve",
  "root@pam",
  "PVEAdmin",
  "PVEAdmin@/",
  "@",
  "..",
  "%",
  "UPID:x",
  "ü",
  "__proto__",
  "constructor",
);
const leaf = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null), names, fc.double());
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    leaf,
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(
      fc.oneof(
        fc.string(),
        fc.constantFrom("name", "labels", "path", "role", "subjects", "groups", "privileges", "__proto__"),
      ),
      tie("value"),
      { maxKeys: 4 },
    ),
  ),
})).value;
const kindNames = fc.constantFrom("Node", "Tenant", "Task", "Event", "User", "Role", "Binding", "Nope");
const almostObject = fc.record({
  apiVersion: fc.constantFrom("gpve.io/v1", "v1"),
  kind: kindNames,
  metadata: fc.oneof(
    json,
    fc.record(
      {
        name: names,
        labels: fc.dictionary(fc.string(), fc.string(), { maxKeys: 2 }),
        resourceVersion: fc.constantFrom("0", "1", "x", "1-1"),
      },
      { requiredKeys: [] },
    ),
  ),
  spec: fc.oneof(
    json,
    fc.constant({}),
    fc.record(
      {
        privileges: fc.array(fc.constantFrom("VM.Audit", "X.Y", "")),
        path: names,
        role: names,
        subjects: json,
        comment: fc.string(),
        groups: fc.array(names),
      },
      { requiredKeys: [] },
    ),
    fc.record({
      path: fc.constantFrom("/", "/pool/a", "//", "/x"),
      role: names,
      subjects: fc.array(fc.record({ kind: fc.constantFrom("User", "Group", "Token", "x"), name: names })),
    }),
  ),
});
const request = fc.record({
  route: fc.constantFrom(...v1Routes()),
  method: fc.option(fc.constantFrom("GET", "POST", "PUT", "PATCH", "DELETE"), { freq: 5 }),
  name: fc.oneof(names, fc.string({ minLength: 1 })),
  query: fc.oneof(
    fc.constant(""),
    fc.webQueryParameters(),
    fc.constantFrom(
      "limit=1",
      "labelSelector=a",
      "fieldSelector=metadata.name%3Da",
      "continue=WzFd",
      "resourceVersion=1",
    ),
  ),
  body: fc.oneof(almostObject, json, fc.record({ objects: fc.array(almostObject, { maxLength: 3 }) })),
  as: fc.constantFrom("root@pam", "joe@pve", "joe@pve!t", ""),
  key: fc.option(fc.constantFrom("k1", "k2", "k3")),
});

it(
  "answers whatever is sent with an object or a problem, never with a failure of its own",
  { timeout: 600_000 },
  async () => {
    await fc.assert(
      fc.asyncProperty(request, async ({ route, method, name, query, body, as, key }) => {
        // A watch has no end to wait for.
        if (/watch=/.test(query)) return;
        const path = route.path.replace("{name}", encodeURIComponent(name.isWellFormed() ? name : "x"));
        const verb = method ?? route.method;
        const answer = await v1.ask(verb, `${path}${query === "" ? "" : `?${query}`}`, {
          as,
          ...(verb === "GET" ? {} : { body }),
          headers: key === null ? {} : { "idempotency-key": key },
        });
        const where = JSON.stringify({ verb, path, query, body, as, answer: answer.body });
        if (answer.status >= 500) expect([501, 503], where).toContain(answer.status);
        if (answer.status >= 400)
          expect(answer.headers.get("content-type"), where).toBe("application/problem+json");
      }),
      { numRuns: runs },
    );
    expect((await v1.ask("GET", "/readyz")).status).toBe(200);
    expect(({} as Record<string, unknown>)["name"]).toBeUndefined();
  },
);
