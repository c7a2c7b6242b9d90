import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";
import { parseApiPath } from "./call.ts";
import { jsonBody, splitWord } from "./parameters.ts";

describe("api on the Proxmox face", () => {
  test("prints the data as JSON, as YAML or as a table of all keys", async () => {
    await using ctl = await Gpvectl.create();
    ctl.api.pve("GET /nodes", [
      { node: "n1", cpu: 0.5 },
      { node: "n2", level: "" },
    ]);
    expect((await ctl.run(["api", "get", "/nodes"])).out).toBe(
      `${JSON.stringify(
        [
          { node: "n1", cpu: 0.5 },
          { node: "n2", level: "" },
        ],
        null,
        2,
      )}\n`,
    );
    expect((await ctl.run(["api", "get", "/api2/json/nodes", "-o", "yaml"])).out).toBe(
      '- node: n1\n  cpu: 0.5\n- node: n2\n  level: ""\n',
    );
    expect((await ctl.run(["api", "get", "nodes", "-o", "table"])).out).toBe(
      "NODE  CPU  LEVEL\nn1    0.5  -\nn2    -    -\n",
    );
  });

  test("sends values, lists, files and standard input", async () => {
    await using ctl = await Gpvectl.create();
    ctl.api.pve("POST /access/users", null).pve("GET /nodes/n1/tasks", []).pve("DELETE /pools", null);
    await writeFile(join(ctl.home, "comment.txt"), "from file\n");
    const argv = [
      "api",
      "post",
      "/access/users",
      "userid=a@pve",
      "x=1",
      "x=2",
      "comment=@comment.txt",
      "password=@-",
    ];
    expect(await ctl.run(argv, { stdin: "secret\n" })).toMatchObject({ code: 0, out: "null\n" });
    expect(decodeURIComponent(ctl.api.requests[0]?.body ?? "")).toBe(
      "userid=a@pve&x=1&x=2&comment=from file&password=secret",
    );
    await ctl.run(["api", "get", "/nodes/n1/tasks", "limit=3"]);
    expect(ctl.api.last("GET /api2/json/nodes/n1/tasks").query.toString()).toBe("limit=3");
    await ctl.run(["api", "delete", "/pools", "poolid=p"]);
    expect(ctl.api.last("DELETE /api2/json/pools").query.toString()).toBe("poolid=p");
    expect((await ctl.run(["api", "post", "/pools", "nonsense"])).err).toContain(
      '"nonsense" is not key=value',
    );
    expect((await ctl.run(["api", "post", "/pools", "a=@gone"])).err).toContain(
      "A value that starts with @ names a file.",
    );
    expect((await ctl.run(["api", "patch", "/pools"])).err).toContain("no PATCH");
  });

  test("--wait follows the task that a call starts", async () => {
    await using ctl = await Gpvectl.create();
    const upid = "UPID:n1:1:";
    ctl.api
      .pve("POST /nodes/n1/startall", upid)
      .pve(`GET /nodes/n1/tasks/${upid}/status`, { status: "stopped", exitstatus: "OK" })
      .pve(`GET /nodes/n1/tasks/${upid}/log`, [{ n: 1, t: "hello" }], 1);
    expect(await ctl.run(["api", "post", "/nodes/n1/startall", "--wait"])).toEqual({
      code: 0,
      out: `"${upid}"\n`,
      err: "hello\n",
    });
  });
});

describe("api on our face", () => {
  test("reads, writes bodies from values and files, and sends idempotency keys", async () => {
    await using ctl = await Gpvectl.create();
    const tenant = { apiVersion: "gpve.io/v1", kind: "Tenant", metadata: { name: "a" } };
    ctl.api
      .on("GET /api/v1/tenants", { body: { items: [] } })
      .on("POST /api/v1/tenants", { status: 201, body: tenant })
      .on("PATCH /api/v1/tenants/a", { body: tenant })
      .on("POST /api/v1/nodes/n1/probe", { status: 202, body: { task: "x" } })
      .on("DELETE /api/v1/tenants/a", { status: 204 });
    await ctl.run(["api", "get", "/api/v1/tenants", "limit=2"]);
    expect(ctl.api.requests[0]?.query.toString()).toBe("limit=2");
    await writeFile(join(ctl.home, "t.yaml"), "apiVersion: gpve.io/v1\nkind: Tenant\nmetadata: {name: a}\n");
    expect((await ctl.run(["api", "post", "/api/v1/tenants", "-f", "t.yaml", "spec.comment=hi"])).code).toBe(
      0,
    );
    const posted = ctl.api.last("POST /api/v1/tenants");
    expect(JSON.parse(posted.body)).toEqual({ ...tenant, spec: { comment: "hi" } });
    expect(posted.headers["idempotency-key"]).toBeDefined();
    await ctl.run(["api", "patch", "/api/v1/tenants/a", "spec.comment=null"]);
    expect(ctl.api.last("PATCH /api/v1/tenants/a")).toMatchObject({
      body: '{"spec":{"comment":null}}',
      headers: { "content-type": "application/merge-patch+json" },
    });
    await ctl.run(["api", "post", "/api/v1/nodes/n1/probe"]);
    expect(ctl.api.last("POST /api/v1/nodes/n1/probe").body).toBe("");
    expect((await ctl.run(["api", "delete", "/api/v1/tenants/a", "resourceVersion=3"])).out).toBe("null\n");
    await writeFile(join(ctl.home, "two.yaml"), "apiVersion: a\nkind: b\n---\napiVersion: a\nkind: b\n");
    expect((await ctl.run(["api", "post", "/api/v1/tenants", "-f", "two.yaml"])).err).toContain(
      "one call takes one object",
    );
  });
});

test("api coverage prints shares per area, and what is missing", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api.on("GET /api/v1/coverage", {
    body: {
      implemented: 3,
      known: 8,
      areas: [
        { area: "access", implemented: 2, known: 4 },
        { area: "pools", implemented: 1, known: 4 },
      ],
      routes: [
        { method: "GET", path: "/access", area: "access", implemented: true },
        { method: "PUT", path: "/pools", area: "pools", implemented: false },
      ],
    },
  });
  expect((await ctl.run(["api", "coverage"])).out).toBe(
    [
      "AREA    IMPLEMENTED  KNOWN   SHARE",
      "access  2            4      50.0 %",
      "pools   1            4      25.0 %",
      "total   3            8      37.5 %",
      "",
    ].join("\n"),
  );
  expect((await ctl.run(["api", "coverage", "--missing"])).out).toBe("METHOD  PATH\nPUT     /pools\n");
  expect((await ctl.run(["api", "coverage", "--missing", "--area", "access"])).err).toBe(
    "Nothing is missing.\n",
  );
  expect(JSON.parse((await ctl.run(["api", "coverage", "-o", "json"])).out)).toHaveProperty("known", 8);
  ctl.api.on("GET /api/v1/coverage", { body: {} });
  expect((await ctl.run(["api", "coverage"])).code).toBe(1);
});

describe("parsing", () => {
  test("paths of both faces", () => {
    expect(parseApiPath("nodes")).toEqual({ path: "/nodes", ours: false });
    expect(parseApiPath("/api2/json/nodes")).toEqual({ path: "/nodes", ours: false });
    expect(parseApiPath("/api2/extjs")).toEqual({ path: "/", ours: false });
    expect(parseApiPath("/api/v1")).toEqual({ path: "", ours: true });
    expect(parseApiPath("/api/v1/tenants/a?x=1")).toEqual({ path: "tenants/a?x=1", ours: true });
    expect(parseApiPath("/api/v10")).toEqual({ path: "/api/v10", ours: false });
  });

  test("key=value keeps everything after the first =", () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 1 }).filter((key) => !key.includes("=")),
        fc.string(),
        (key, value) => {
          expect(splitWord(`${key}=${value}`)).toEqual({ key, value });
        },
      ),
    );
    expect(() => splitWord("=x")).toThrow();
  });

  test("bodies nest by dots, take JSON values, and never touch prototypes", () => {
    expect(jsonBody({ "a.b": "1", "a.c": "x", d: ["true", "y"], e: "{}" })).toEqual({
      a: { b: 1, c: "x" },
      d: [true, "y"],
      e: {},
    });
    expect(() => jsonBody({ "__proto__.x": "1" })).toThrow(/not a field/);
    expect(() => jsonBody({ "a.constructor.prototype.x": "1" })).toThrow(/not a field/);
  });
});
