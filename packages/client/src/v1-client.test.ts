import { beforeEach, describe, expect, test } from "vitest";
import { GpveClient } from "./client.ts";
import type { V1Object, V1WatchEvent } from "./object.ts";
import { FakeApi, FakeTransport } from "./testing/fake-api.ts";

const tenant = (name: string, resourceVersion = "1"): V1Object => ({
  apiVersion: "gpve.io/v1",
  kind: "Tenant",
  metadata: { name, uid: "u", labels: {}, annotations: {}, resourceVersion, generation: 1 },
  spec: {},
  status: {},
});

let api: FakeApi;
let v1: GpveClient["v1"];

beforeEach(() => {
  api = new FakeApi();
  v1 = new GpveClient({
    transport: new FakeTransport(api),
    credentials: { kind: "token", token: "t" },
    clock: { now: () => 0, sleep: async () => undefined },
  }).v1;
});

describe("objects", () => {
  test("are read one by one, and page after page", async () => {
    api.on("GET /api/v1/tenants/a/b", { body: tenant("a/b") });
    expect((await v1.get("tenants", "a/b")).metadata.name).toBe("a/b");
    api.on("GET /api/v1/tenants", (request) =>
      request.query.get("continue") === "more"
        ? { body: { metadata: { resourceVersion: "9" }, items: [tenant("c")] } }
        : {
            body: { metadata: { resourceVersion: "9", continue: "more" }, items: [tenant("a"), tenant("b")] },
          },
    );
    const names: string[] = [];
    for await (const object of v1.listAll("tenants", { labelSelector: "x=y", limit: 2 })) {
      names.push(object.metadata.name);
    }
    expect(names).toEqual(["a", "b", "c"]);
    expect(api.requests.at(-1)?.query.toString()).toBe("labelSelector=x%3Dy&limit=2&continue=more");
    expect(await v1.list("tenants")).toMatchObject({ resourceVersion: "9", continueToken: "more" });
  });

  test("are written with an idempotency key, given or made up", async () => {
    api.on("POST /api/v1/tenants", { status: 201, body: tenant("a") });
    api.on("PUT /api/v1/tenants/a", { body: tenant("a") });
    api.on("PATCH /api/v1/tenants/a", { body: tenant("a") });
    api.on("DELETE /api/v1/tenants/a", { status: 204 });
    await v1.create("tenants", tenant("a"), { idempotencyKey: "k1" });
    expect(api.last("POST /api/v1/tenants").headers).toMatchObject({
      "idempotency-key": "k1",
      "content-type": "application/json",
    });
    await v1.replace("tenants", "a", tenant("a"));
    await v1.patch("tenants", "a", { spec: { comment: null } });
    expect(api.last("PATCH /api/v1/tenants/a").headers["content-type"]).toBe("application/merge-patch+json");
    await v1.delete("tenants", "a");
    expect(api.last("DELETE /api/v1/tenants/a").headers["idempotency-key"]).toMatch(/^[0-9a-f-]{36}$/);
    expect(api.last("DELETE /api/v1/tenants/a").headers["content-type"]).toBeUndefined();
  });

  test("plans and applies many at once", async () => {
    api.on("POST /api/v1/plan", { body: { items: [{ action: "create" }], applicable: true } });
    api.on("POST /api/v1/apply", { status: 202, body: { items: [], task: "UPID:n1:" } });
    expect(await v1.plan([tenant("a")])).toEqual({
      items: [{ action: "create" }],
      applicable: true,
    });
    expect((await v1.apply([tenant("a")])).task).toBe("UPID:n1:");
    expect(JSON.parse(api.last("POST /api/v1/apply").body)).toEqual({ objects: [tenant("a")] });
    expect(api.last("POST /api/v1/apply").headers["idempotency-key"]).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("belong to kinds that the server lists and that have many names", async () => {
    const row = { kind: "Tenant", plural: "tenants", aliases: ["pool"], verbs: ["list"], appliable: true };
    api.on("GET /api/v1", { body: { kinds: [row] } });
    expect(await v1.kinds()).toHaveLength(1);
    for (const name of ["tenant", "TENANTS", "Pool"]) expect((await v1.kind(name)).plural).toBe("tenants");
    await expect(v1.kind("vm")).rejects.toThrow('there is no kind "vm"; known: tenants');
    expect(api.requests).toHaveLength(1);
  });

  test("actions are posted with or without a body", async () => {
    api.on("POST /api/v1/nodes/n1/probe", { status: 202, body: { task: "UPID:n1:" } });
    expect(await v1.post("nodes/n1/probe", undefined)).toEqual({ task: "UPID:n1:" });
    expect(api.requests[0]?.headers["idempotency-key"]).toBeDefined();
  });

  test("answers of the wrong shape are errors, problems keep their code", async () => {
    api.on("GET /api/v1/tenants", { body: {} }).on("GET /api/v1/tenants/a", { body: {} });
    await expect(v1.list("tenants")).rejects.toThrow(/carries no items/);
    await expect(v1.get("tenants", "a")).rejects.toThrow(/not an object with a name/);
    api
      .on("POST /api/v1/plan", { body: {} })
      .on("POST /api/v1/apply", { body: {} })
      .on("GET /api/v1", { body: {} });
    await expect(v1.plan([])).rejects.toThrow(/plan carries no items/);
    await expect(v1.apply([])).rejects.toThrow(/apply carries no items/);
    await expect(v1.kinds()).rejects.toThrow(/does not list its kinds/);
    api.on("GET /api/v1/tenants/a", { body: "<" });
    await expect(v1.get("tenants", "a")).rejects.toThrow(/did not answer with JSON/);
    api.on("GET /api/v1/tenants/a", {
      status: 404,
      headers: { "content-type": "application/problem+json" },
      body: { code: "object.not_found", detail: "no tenant a" },
    });
    await expect(v1.get("tenants", "a")).rejects.toMatchObject({
      code: "object.not_found",
      message: "no tenant a",
    });
  });
});

describe("watching", () => {
  const frame = (type: string, id: string, data: unknown): string =>
    `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;

  test("goes on from the last event after a lost connection", async () => {
    const streams = [
      [
        frame("ADDED", "5", { type: "ADDED", object: tenant("a", "5") }),
        ": ping\n\n",
        frame("BOOKMARK", "8", {}),
      ],
      [frame("DELETED", "9", { type: "DELETED", object: tenant("a", "9") })],
    ];
    const abort = new AbortController();
    api.on("GET /api/v1/tenants", () => {
      const pieces = streams.shift();
      return {
        headers: { "content-type": "text/event-stream" },
        stream: (async function* () {
          yield* pieces ?? [];
          if (pieces === undefined) abort.abort();
        })(),
      };
    });
    const events: V1WatchEvent[] = [];
    for await (const event of v1.watch("tenants", { signal: abort.signal, labelSelector: "a" }))
      events.push(event);
    expect(events.map((event) => [event.type, event.resourceVersion])).toEqual([
      ["ADDED", "5"],
      ["DELETED", "9"],
    ]);
    expect(api.requests.slice(0, 2).map((request) => request.headers["last-event-id"])).toEqual([
      undefined,
      "8",
    ]);
    expect(api.requests[1]?.query.toString()).toBe("watch=1&labelSelector=a&resourceVersion=8");
  });

  test("ends with the problem that an ERROR event is", async () => {
    const problem = {
      type: "urn:gpve:error:auth.required",
      code: "auth.required",
      detail: "no longer valid",
    };
    api.on("GET /api/v1/tenants", {
      stream: (async function* () {
        yield frame("ERROR", "", problem);
      })(),
    });
    await expect(v1.watch("tenants").next()).rejects.toMatchObject({ code: "auth.required" });
  });

  test("ends with the server's problem when it says ERROR, and with a refusal", async () => {
    const gone = {
      type: "ERROR",
      object: { code: "store.compacted", detail: "revision 3 is gone", status: 410 },
    };
    api.on("GET /api/v1/tenants", {
      stream: (async function* () {
        yield frame("ERROR", "", gone);
      })(),
    });
    await expect(v1.watch("tenants", { resourceVersion: "3" }).next()).rejects.toMatchObject({
      code: "store.compacted",
      message: "revision 3 is gone",
    });
    api.on("GET /api/v1/tenants", { status: 403, reason: "no" });
    await expect(v1.watch("tenants").next()).rejects.toMatchObject({ code: "access.denied" });
  });
});
