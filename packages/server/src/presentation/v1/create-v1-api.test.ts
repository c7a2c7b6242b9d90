import { given } from "@gpve/contracts/given.ts";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openApiOfV1 } from "@gpve/contracts/v1/openapi.ts";
import { v1Routes } from "@gpve/contracts/v1/routes.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
import { startV1 } from "./testing/v1-server.ts";
import type { AnswerBody, V1TestServer } from "./testing/v1-server.ts";

let v1: V1TestServer;
beforeEach(async () => {
  v1 = await startV1();
});
afterEach(() => v1.close());

const tenant = (name: string, comment?: string, labels?: object) => ({
  apiVersion: "gpve.io/v1",
  kind: "Tenant",
  metadata: { name, ...given({ labels }) },
  spec: comment === undefined ? {} : { comment },
});

describe("objects", () => {
  it("are created, read, replaced, patched and deleted, each change with a new version", async () => {
    const made = await v1.ask("POST", "/tenants", { body: tenant("web", "first", { tier: "gold" }) });
    expect(made.status).toBe(201);
    expect(made.headers.get("location")).toBe("/api/v1/tenants/web");
    expect(made.body).toMatchObject({
      apiVersion: "gpve.io/v1",
      kind: "Tenant",
      metadata: { name: "web", labels: { tier: "gold" }, annotations: {}, generation: 1 },
      spec: { comment: "first" },
      status: { guests: [], storages: [] },
    });
    const read = await v1.ask("GET", "/tenants/web");
    expect(read.body).toEqual(made.body);

    const replaced = await v1.ask("PUT", "/tenants/web", {
      body: { ...read.body, spec: { comment: "second" } },
    });
    expect(replaced.status).toBe(200);
    expect(replaced.body).toMatchObject({
      metadata: { generation: 2, labels: { tier: "gold" } },
      spec: { comment: "second" },
    });
    expect(replaced.body.metadata.uid).toBe(made.body.metadata.uid);

    const stale = await v1.ask("PUT", "/tenants/web", { body: { ...read.body, spec: {} } });
    expect(stale.status).toBe(409);
    expect(stale.body).toMatchObject({ code: "object.conflict", data: { kind: "Tenant", name: "web" } });

    const patched = await v1.ask("PATCH", "/tenants/web", {
      body: { metadata: { labels: { tier: null, zone: "a" } }, spec: { comment: null } },
      headers: { "content-type": "application/merge-patch+json" },
    });
    expect(patched.body).toMatchObject({ metadata: { labels: { zone: "a" } }, spec: {} });

    const removed = await v1.ask("DELETE", "/tenants/web");
    expect(removed.status).toBe(200);
    expect((await v1.ask("GET", "/tenants/web")).status).toBe(404);
    const again = await v1.ask("POST", "/tenants", { body: tenant("web") });
    expect(again.body.metadata.uid).not.toBe(made.body.metadata.uid);
    expect(again.body).toMatchObject({ metadata: { labels: {} } });
  });

  it("give a version of their own to a patch and to a delete that ask for one", async () => {
    const { body } = await v1.ask("POST", "/tenants", { body: tenant("a") });
    const version = body.metadata.resourceVersion as string;
    const patch = (resourceVersion: string) =>
      v1.ask("PATCH", "/tenants/a", { body: { metadata: { resourceVersion }, spec: { comment: "x" } } });
    expect((await patch("1")).status).toBe(409);
    expect((await patch(version)).status).toBe(200);
    expect((await v1.ask("DELETE", `/tenants/a?resourceVersion=${version}`)).status).toBe(409);
  });

  it("refuse a second one of the same name, wrong names and unknown fields with a hint", async () => {
    await v1.ask("POST", "/tenants", { body: tenant("a") });
    expect((await v1.ask("POST", "/tenants", { body: tenant("a") })).body).toMatchObject({
      code: "object.exists",
      status: 409,
    });
    const typo = await v1.ask("POST", "/tenants", { body: { ...tenant("b"), spec: { coment: "x" } } });
    expect(typo.body).toMatchObject({
      status: 400,
      code: "request.invalid",
      errors: { "spec.coment": "is not a known field; did you mean 'comment'?" },
    });
    const named = await v1.ask("PUT", "/tenants/a", { body: tenant("b") });
    expect(named.body).toMatchObject({ errors: { "metadata.name": "must be 'a', as in the path" } });
    const bad = await v1.ask("POST", "/tenants", {
      body: { ...tenant("b"), apiVersion: "v2", metadata: { name: "a b" } },
    });
    expect(bad.body).toMatchObject({ errors: { apiVersion: "must be 'gpve.io/v1'" } });
    const odd = await v1.ask("POST", "/tenants", { body: tenant("a b") });
    expect([odd.status, odd.body["detail"]]).toEqual([
      400,
      expect.stringContaining("'a b' is not a name of a Tenant (letters, digits, dots"),
    ]);
    expect((await v1.ask("POST", "/tenants", { body: { ...tenant("c"), metadata: {} } })).body).toMatchObject(
      {
        errors: { "metadata.name": "is required" },
      },
    );
    const label = await v1.ask("POST", "/tenants", { body: tenant("c", "x", { "bad key": "v", ok: "ü" }) });
    expect(Object.keys(label.body.errors).toSorted()).toEqual([
      "metadata.labels.bad key",
      "metadata.labels.ok",
    ]);
    expect((await v1.ask("GET", "/tenants")).body.items).toHaveLength(1);
  });

  it("are the same records as under /api2: nested tenants are kept whole", async () => {
    expect((await v1.ask("POST", "/tenants", { body: tenant("a/b") })).status).toBe(400);
    await v1.ask("POST", "/tenants", { body: tenant("a") });
    expect((await v1.ask("POST", "/tenants", { body: tenant("a/b") })).status).toBe(201);
    expect((await v1.ask("GET", "/tenants/a%2Fb")).body).toMatchObject({ status: { parent: "a" } });
    expect((await v1.ask("DELETE", "/tenants/a")).body).toMatchObject({ code: "object.conflict" });
  });
});

describe("users, roles and bindings", () => {
  it("make up PVE's access model", async () => {
    await v1.addUser("joe@pve", { groups: ["ops"] });
    const role = await v1.ask("POST", "/roles", {
      body: {
        apiVersion: "gpve.io/v1",
        kind: "Role",
        metadata: { name: "Viewer" },
        spec: { privileges: ["Pool.Audit"] },
      },
    });
    expect(role.status).toBe(201);
    const binding = await v1.ask("POST", "/bindings", {
      body: {
        apiVersion: "gpve.io/v1",
        kind: "Binding",
        metadata: {},
        spec: { path: "/pool/web", role: "Viewer", subjects: [{ kind: "User", name: "joe@pve" }] },
      },
    });
    expect(binding.body).toMatchObject({
      metadata: { name: "Viewer@/pool/web" },
      spec: { subjects: [{ kind: "User", name: "joe@pve", propagate: true }] },
    });
    await v1.ask("POST", "/tenants", { body: tenant("web") });
    await v1.ask("POST", "/tenants", { body: tenant("db") });
    const seen = await v1.ask("GET", "/tenants", { as: "joe@pve" });
    expect(seen.body.items.map((item) => item.metadata.name)).toEqual(["web"]);
    expect((await v1.ask("GET", "/tenants/db", { as: "joe@pve" })).status).toBe(403);
    expect((await v1.ask("GET", "/tenants/nothing", { as: "joe@pve" })).status).toBe(403);

    const path = "/bindings/Viewer%40%2Fpool%2Fweb";
    const before = (await v1.ask("GET", path)).body;
    const two = await v1.ask("PUT", path, {
      body: {
        ...before,
        spec: {
          path: "/pool/web",
          role: "Viewer",
          subjects: [
            { kind: "User", name: "joe@pve" },
            { kind: "Group", name: "ops", propagate: false },
          ],
        },
      },
    });
    expect(two.body.spec.subjects).toHaveLength(2);
    const one = await v1.ask("PATCH", path, {
      body: { spec: { subjects: [{ kind: "Group", name: "ops", propagate: false }] } },
    });
    expect(one.body.metadata.resourceVersion).not.toBe(two.body.metadata.resourceVersion);
    expect((await v1.ask("GET", "/tenants/web", { as: "joe@pve" })).status).toBe(200);
    expect((await v1.ask("DELETE", "/roles/Viewer")).status).toBe(200);
    expect((await v1.ask("GET", path)).status).toBe(404);
    expect((await v1.ask("GET", "/tenants/web", { as: "joe@pve" })).status).toBe(403);
  });

  it("refuse what the model does not know", async () => {
    const role = (name: string, privileges: string[]) => ({
      apiVersion: "gpve.io/v1",
      kind: "Role",
      metadata: { name },
      spec: { privileges },
    });
    expect((await v1.ask("POST", "/roles", { body: role("x", ["VM.Audid"]) })).body).toMatchObject({
      errors: { "spec.privileges": "'VM.Audid' is not a privilege; did you mean 'VM.Audit'?" },
    });
    expect((await v1.ask("POST", "/roles", { body: role("pveMine", []) })).status).toBe(400);
    expect((await v1.ask("PUT", "/roles/Administrator", { body: role("Administrator", []) })).status).toBe(
      400,
    );
    expect((await v1.ask("DELETE", "/roles/PVEAdmin")).status).toBe(400);
    const binding = (spec: object) => ({ apiVersion: "gpve.io/v1", kind: "Binding", metadata: {}, spec });
    const subjects = [{ kind: "User", name: "root@pam" }];
    const ask = (spec: object) => v1.ask("POST", "/bindings", { body: binding(spec) });
    expect((await ask({ path: "/nonsense", role: "PVEAdmin", subjects })).status).toBe(400);
    expect((await ask({ path: "/", role: "Nobody", subjects })).body).toMatchObject({
      errors: { "spec.role": "does not exist" },
    });
    expect(
      (await ask({ path: "/", role: "PVEAdmin", subjects: [{ kind: "Token", name: "a@pve!b" }] })).status,
    ).toBe(400);
    expect((await ask({ path: "/", role: "PVEAdmin", subjects: [...subjects, ...subjects] })).status).toBe(
      400,
    );
    const user = (name: string, spec: object = {}) => ({
      apiVersion: "gpve.io/v1",
      kind: "User",
      metadata: { name },
      spec,
    });
    expect((await v1.ask("POST", "/users", { body: user("x@nowhere") })).status).toBe(400);
    expect((await v1.ask("POST", "/users", { body: user("x@pve", { groups: ["none"] }) })).status).toBe(400);
    expect((await v1.ask("DELETE", "/users/root@pam")).status).toBe(400);
    const made = await v1.ask("POST", "/users", { body: user("x@pve", { email: "x@example.org" }) });
    expect(made.body).toMatchObject({
      spec: { enable: true, expire: 0, email: "x@example.org" },
      status: { realm: "pve", tokens: [] },
    });
    expect((await v1.ask("DELETE", "/users/x@pve")).status).toBe(200);
  });

  it("let a user see himself and group administrators their members, as PVE does", async () => {
    await v1.addUser("member@pve", { groups: ["dev"] });
    await v1.addUser("other@pve");
    await v1.addUser("lead@pve", { grants: [["/access/groups/dev", "PVEUserAdmin"]] });
    const names = async (as: string) =>
      (await v1.ask("GET", "/users", { as })).body.items.map((item) => item.metadata.name);
    expect(await names("other@pve")).toEqual(["other@pve"]);
    expect(await names("lead@pve")).toEqual(["lead@pve", "member@pve"]);
    expect(await names("root@pam")).toEqual(["lead@pve", "member@pve", "other@pve", "root@pam"]);
    const patch = (name: string, spec: object) =>
      v1.ask("PATCH", `/users/${name}`, { as: "lead@pve", body: { spec } });
    expect((await patch("member@pve", { comment: "hi" })).status).toBe(200);
    expect((await patch("other@pve", { comment: "hi" })).status).toBe(403);
    await v1.addUser("helper@pve", { groups: ["ops"] });
    expect((await patch("member@pve", { groups: ["dev", "ops"] })).status).toBe(403);
  });

  it("let nobody grant more than he holds", async () => {
    await v1.addUser("owner@pve", { grants: [["/pool/web", "PVEPoolAdmin"]] });
    const binding = (role: string) => ({
      apiVersion: "gpve.io/v1",
      kind: "Binding",
      metadata: {},
      spec: { path: "/pool/web", role, subjects: [{ kind: "User", name: "owner@pve" }] },
    });
    expect(
      (await v1.ask("POST", "/bindings", { as: "owner@pve", body: binding("PVEPoolUser") })).status,
    ).toBe(201);
    const missing = (path: string) =>
      v1.ask("GET", `/bindings/${encodeURIComponent(`NoAccess@${path}`)}`, { as: "owner@pve" });
    expect([(await missing("/pool/web")).status, (await missing("/pool/db")).status]).toEqual([404, 403]);
    expect(
      (await v1.ask("POST", "/bindings", { as: "owner@pve", body: binding("Administrator") })).status,
    ).toBe(400);
  });
});

describe("lists", () => {
  it("select by labels and fields and page at one revision", async () => {
    for (const name of ["a", "b", "c", "d", "e"]) {
      await v1.ask("POST", "/tenants", {
        body: tenant(name, undefined, { odd: String("ace".includes(name)) }),
      });
    }
    const names = (answer: { body: AnswerBody }) => answer.body.items.map((item) => item.metadata.name);
    expect(names(await v1.ask("GET", "/tenants?labelSelector=odd%3Dtrue"))).toEqual(["a", "c", "e"]);
    expect(names(await v1.ask("GET", "/tenants?fieldSelector=metadata.name!%3Da"))).toEqual([
      "b",
      "c",
      "d",
      "e",
    ]);
    const first = await v1.ask("GET", "/tenants?limit=2&labelSelector=odd");
    expect(names(first)).toEqual(["a", "b"]);
    expect(first.body.metadata).toMatchObject({ remainingItemCount: 3 });
    await v1.ask("DELETE", "/tenants/c");
    await v1.ask("POST", "/tenants", { body: tenant("cc", undefined, { odd: "true" }) });
    const token = encodeURIComponent(first.body.metadata.continue);
    const second = await v1.ask("GET", `/tenants?limit=2&labelSelector=odd&continue=${token}`);
    expect(names(second)).toEqual(["c", "d"]);
    expect(second.body.metadata.resourceVersion).toBe(first.body.metadata.resourceVersion);
    expect((await v1.ask("GET", `/tenants?limit=2&continue=${token}`)).status).toBe(400);
    expect((await v1.ask("GET", "/tenants?continue=rubbish!")).status).toBe(400);
  });

  it("refuse unknown, repeated and malformed query parameters", async () => {
    expect((await v1.ask("GET", "/tenants?labelselector=a")).body).toMatchObject({ status: 400 });
    expect((await v1.ask("GET", "/tenants?limit=1&limit=2")).status).toBe(400);
    expect((await v1.ask("GET", "/tenants?limit=-1")).status).toBe(400);
    expect((await v1.ask("GET", "/tenants?watch=maybe")).status).toBe(400);
    expect((await v1.ask("GET", "/tenants/a?limit=1")).status).toBe(400);
    expect((await v1.ask("GET", "/tenants?fieldSelector=spec.comment%3Dx")).status).toBe(400);
  });
});

describe("idempotency", () => {
  it("gives the first answer again and makes the change once, also side by side", async () => {
    const headers = { "idempotency-key": "k1" };
    const [first, second] = await Promise.all([
      v1.ask("POST", "/tenants", { body: tenant("a", "x"), headers }),
      v1.ask("POST", "/tenants", { body: tenant("a", "x"), headers }),
    ]);
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(first.body).toEqual(second.body);
    const third = await v1.ask("POST", "/tenants", { body: tenant("a", "x"), headers });
    expect(third.headers.get("idempotency-replayed")).toBe("true");
    expect(third.body).toEqual(first.body);
    await v1.ask("DELETE", "/tenants/a", { headers: { "idempotency-key": "k2" } });
    expect((await v1.ask("DELETE", "/tenants/a", { headers: { "idempotency-key": "k2" } })).status).toBe(200);
    expect((await v1.ask("DELETE", "/tenants/a")).status).toBe(404);
  });

  it("refuses a key used for something else, and keeps the keys of users apart", async () => {
    const headers = { "idempotency-key": "k" };
    await v1.addUser("adm@pve", { grants: [["/", "Administrator"]] });
    expect((await v1.ask("POST", "/tenants", { body: tenant("a"), headers })).status).toBe(201);
    expect((await v1.ask("POST", "/tenants", { body: tenant("b"), headers })).body).toMatchObject({
      status: 409,
      code: "object.conflict",
    });
    expect((await v1.ask("POST", "/tenants", { as: "adm@pve", body: tenant("b"), headers })).status).toBe(
      201,
    );
    expect(
      (await v1.ask("POST", "/tenants", { body: tenant("c"), headers: { "idempotency-key": "has space" } }))
        .status,
    ).toBe(400);
  });

  it("never shows a secret twice", async () => {
    const headers = { "idempotency-key": "join" };
    expect((await v1.ask("POST", "/join-tokens", { body: {}, headers })).body).toMatchObject({
      token: "gpve-join.secret",
    });
    expect((await v1.ask("POST", "/join-tokens", { body: {}, headers })).status).toBe(409);
    expect((await v1.ask("POST", "/join-tokens", { headers: {} })).status).toBe(201);
  });
});

describe("bad input", () => {
  it.each([
    ["{", 400],
    ['"text"', 400],
    ["null", 400],
    ["[]", 400],
    [new Uint8Array([0x7b, 0xff, 0x7d]), 400],
    ["[".repeat(100) + "]".repeat(100), 400],
    ['{"__proto__": {"a": 1}}', 400],
    [`{"a":"${"x".repeat(600_000)}"}`, 413],
  ])("answers body %# with a problem", async (raw, status) => {
    const answer = await v1.ask("POST", "/tenants", { raw });
    expect(answer.status).toBe(status);
    expect(answer.headers.get("content-type")).toBe("application/problem+json");
    expect(answer.body).toMatchObject({ status, instance: expect.stringMatching(/^req-/) });
    expect((await v1.ask("GET", "/healthz")).status).toBe(200);
  });

  it("of a hundred thousand levels are refused with 400, beyond the limit of a body with 413", async () => {
    const deep = (levels: number): string => `${"[".repeat(levels)}${"]".repeat(levels)}`;
    for (const [method, path] of [
      ["POST", "/tenants"],
      ["PUT", "/tenants/x"],
      ["PATCH", "/tenants/x"],
      ["POST", "/plan"],
      ["POST", "/apply"],
    ] as const) {
      const refused = await v1.ask(method, path, {
        raw: `{"spec":${deep(100_000)},"objects":${deep(100_000)}}`,
      });
      expect(refused).toMatchObject({ status: 400, body: { code: "request.invalid" } });
      expect(refused.body["detail"]).toContain("nested deeper than 64 levels");
    }
    expect((await v1.ask("POST", "/tenants", { raw: deep(300_000) })).status).toBe(413);
    expect((await v1.ask("GET", "/tenants")).status).toBe(200);
  });

  it("knows the way and says so", async () => {
    expect((await v1.ask("GET", "/nothing")).status).toBe(404);
    expect((await v1.ask("GET", "/tenants/%ff")).status).toBe(400);
    const wrong = await v1.ask("DELETE", "/tenants");
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, POST"]);
    expect((await v1.ask("POST", "/tenants")).status).toBe(400);
    expect(
      (await v1.ask("POST", "/tenants", { raw: "a=b", headers: { "content-type": "text/plain" } })).status,
    ).toBe(400);
    expect((await v1.ask("DELETE", "/tenants/a", { body: {} })).status).toBe(400);
  });

  it("asks for credentials before anything else, and for permission before parameters", async () => {
    expect((await v1.ask("POST", "/tenants", { as: "", raw: "{" })).body).toMatchObject({
      status: 401,
      code: "auth.required",
    });
    expect((await v1.ask("GET", "/tenants", { as: "wrong" })).body).toMatchObject({
      status: 401,
      code: "auth.failed",
    });
    await v1.addUser("joe@pve");
    expect((await v1.ask("PUT", "/tenants/x", { as: "joe@pve", raw: "{" })).status).toBe(403);
    expect((await v1.ask("POST", "/tenants", { as: "joe@pve", body: { kind: 7 } })).body).toMatchObject({
      status: 403,
      detail: "Permission check failed (/pool/-, Pool.Allocate)",
    });
    expect((await v1.ask("GET", "/audit?nonsense=1", { as: "joe@pve" })).status).toBe(403);
  });
});

describe("the server itself", () => {
  it("describes kinds, extensions and coverage", async () => {
    const { body } = await v1.ask("GET", "");
    expect(body.kinds.map((kind) => kind.kind)).toEqual([
      "Node",
      "Tenant",
      "Task",
      "Event",
      "User",
      "Role",
      "Binding",
      "ResourceQuota",
      "Storage",
      "Network",
      "VirtualMachine",
      "RebalancePlan",
      "VirtualCluster",
    ]);
    expect(body["extensions"]).toContainEqual({ name: "watch", description: expect.any(String) });
    expect((await v1.ask("GET", "/", { as: "" })).status).toBe(401);
    expect((await v1.ask("GET", "/coverage")).body).toMatchObject({ implemented: 0, known: 0 });
  });

  it("answers health without credentials, and 503 with reasons when it is not ready", async () => {
    expect((await v1.ask("GET", "/healthz", { as: "" })).body).toEqual({ status: "ok", checks: [] });
    expect((await v1.ask("GET", "/readyz", { as: "" })).status).toBe(200);
    const sick = await startV1({
      deps: { readiness: () => Promise.resolve([{ name: "store", ok: false, detail: "gone" }]) },
    });
    const answer = await sick.ask("GET", "/readyz", { as: "" });
    await sick.close();
    expect([answer.status, answer.body]).toEqual([
      503,
      { status: "failing", checks: [{ name: "store", ok: false, detail: "gone" }] },
    ]);
  });

  it("serves every declared route, and answers as its document says", async () => {
    const document = (await v1.ask("GET", "/openapi.json", { as: "" })).body as unknown as ReturnType<
      typeof openApiOfV1
    >;
    expect(document).toEqual(JSON.parse(JSON.stringify(openApiOfV1({ version: "1.2.3" }))));
    const ajv = new Ajv2020({ strict: false });
    addFormats.default(ajv);
    ajv.addSchema({ $id: "doc", ...document });
    await v1.ask("POST", "/tenants", { body: tenant("a") });
    for (const route of v1Routes()) {
      if (route.response.schema === "png") continue;
      const path = route.path.replaceAll("{name}", "a");
      const answer = await v1.ask(route.method, path, route.body === undefined ? {} : { body: {} });
      const where = `${route.method} ${route.path}: ${answer.status} ${JSON.stringify(answer.body).slice(0, 200)}`;
      expect(answer.status, where).not.toBe(405);
      if (answer.status === 404) expect(answer.body["detail"], where).not.toContain("there is nothing at");
      const operation = document.paths[`/api/v1${route.path}`]?.[route.method.toLowerCase()];
      const responses = operation?.["responses"] as Record<
        string,
        { content: Record<string, { schema: { $ref?: string } }> }
      >;
      const declared = responses[String(answer.status)]?.content["application/json"]?.schema;
      const schema = answer.status >= 400 ? { $ref: "#/components/schemas/Problem" } : declared;
      if (answer.status === 503) continue;
      expect(schema, where).toBeDefined();
      const validate =
        schema?.$ref === undefined ? ajv.compile(schema ?? {}) : ajv.compile({ $ref: `doc${schema.$ref}` });
      expect(validate(answer.body), `${where} ${JSON.stringify(validate.errors)}`).toBe(true);
    }
  });

  it("answers a picture as it is, and says what it is", async () => {
    const answer = await fetch(`${v1.url}/api/v1/nodes/n1/vms/100/screenshot`, {
      headers: { authorization: "Test root@pam" },
    });
    expect(answer.headers.get("content-type")).toBe("image/png");
    expect(await answer.text()).toBe('{"png":"n1%2F100"}');
    expect(v1.audits).toMatchObject([{ verb: "GET", name: "/api/v1/nodes/n1/vms/100/screenshot" }]);
  });

  it("audits changes and refusals, without reads", async () => {
    await v1.ask("POST", "/tenants", { body: tenant("a", "x") });
    await v1.ask("GET", "/tenants");
    await v1.addUser("joe@pve");
    await v1.ask("GET", "/tenants/a", { as: "joe@pve" });
    expect(v1.audits).toMatchObject([
      {
        user: "root@pam",
        verb: "POST",
        resource: "/api/v1/tenants",
        name: "/api/v1/tenants",
        statusCode: 201,
      },
      {
        user: "joe@pve",
        verb: "GET",
        resource: "/api/v1/tenants/{name}",
        name: "/api/v1/tenants/a",
        statusCode: 403,
      },
    ]);
    expect(v1.audits[0]?.params).toMatchObject({ name: "a", body: { spec: { comment: "x" } } });
  });

  it("does not acknowledge what the audit log cannot keep", async () => {
    const full = await startV1({ deps: { audit: () => Promise.reject(new Error("disk full")) } });
    const answer = await full.ask("POST", "/tenants", { body: tenant("a") });
    await full.close();
    expect(answer.body).toMatchObject({ status: 500, detail: expect.stringContaining("audit log") });
  });

  it("says which node cannot be reached", async () => {
    const away = await startV1({
      deps: { readiness: () => Promise.reject(new AgentUnreachable(595, "No route to host")) },
    });
    const answer = await away.ask("GET", "/readyz");
    await away.close();
    expect(answer.body).toMatchObject({ status: 503, code: "node.unavailable", detail: "No route to host" });
  });
});
