// /api/v1 of the product as a user starts it: TLS, real logins, real operations, kill -9.
import { readFileSync } from "node:fs";
import { request } from "node:https";
import type { ClientRequest } from "node:http";
import { given } from "@gpve/contracts/given.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { v1Routes } from "@gpve/contracts/v1/routes.ts";
import { apiOf, startGpve } from "../support/gpve.ts";
import type { Answer, Gpve } from "../support/gpve.ts";

let gpve: Gpve;
beforeAll(async () => {
  gpve = await startGpve();
});
afterAll(() => gpve.stop());

interface Body {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly continue?: string;
  };
  readonly items: readonly Body[];
  readonly [field: string]: unknown;
}

async function v1(
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
  auth?: Readonly<Record<string, string>>,
): Promise<{ status: number; body: Body; answer: Answer }> {
  const api = apiOf(gpve.credentials, auth, "/api/v1");
  const text = body === undefined ? undefined : JSON.stringify(body);
  const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  const answer = await api(
    method,
    path,
    {},
    text === undefined ? headers : { "Content-Type": type, ...headers },
    text,
  );
  return { status: answer.status, body: answer.json as unknown as Body, answer };
}

const object = (kind: string, name: string | undefined, spec: object, labels?: object) => ({
  apiVersion: "gpve.io/v1",
  kind,
  metadata: { ...given({ name, labels }) },
  spec,
});

/** A root session by password: cookie for all, CSRF token for changes. */
async function login(): Promise<{ cookie: Record<string, string>; csrf: Record<string, string> }> {
  const { username, password } = gpve.credentials;
  const answer = await apiOf(gpve.credentials, {})("POST", "/access/ticket", { username, password });
  const data = answer.json.data as { ticket: string; CSRFPreventionToken: string };
  const cookie = { Cookie: `PVEAuthCookie=${encodeURIComponent(data.ticket)}` };
  return { cookie, csrf: { CSRFPreventionToken: data.CSRFPreventionToken } };
}

async function taskOf(upid: string): Promise<Body & { status: { phase: string; exitStatus?: string } }> {
  for (let i = 0; i < 200; i++) {
    const { status, body } = await v1("GET", `/tasks/${encodeURIComponent(upid)}`);
    const task = body as Body & { status: { phase: string } };
    if (status === 200 && task.status.phase !== "running" && task.status.phase !== "queued") return task;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`task ${upid} does not end`);
}

/** One watch over TLS. */
function openWatch(path: string, lastEventId?: string) {
  const base = new URL(gpve.credentials.url);
  const events: { event: string; id: string; name: string }[] = [];
  let status = 0;
  let text = "";
  const req: ClientRequest = request(
    {
      host: base.hostname,
      port: base.port,
      ca: readFileSync(gpve.credentials.caFile),
      path: `/api/v1${path}`,
      agent: false,
      headers: {
        Authorization: `PVEAPIToken=${gpve.credentials.token}`,
        ...given({ "Last-Event-ID": lastEventId }),
      },
    },
    (res) => {
      status = res.statusCode ?? 0;
      res.on("data", (chunk: Buffer) => {
        text += chunk.toString("utf8");
        for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
          const block = text.slice(0, end);
          text = text.slice(end + 2);
          const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1] ?? "";
          if (block.startsWith(":")) continue;
          const data = JSON.parse(field("data")) as Body;
          events.push({ event: field("event"), id: field("id"), name: data.metadata.name });
        }
      });
      res.on("error", () => undefined);
    },
  );
  req.on("error", () => undefined);
  req.end();
  return {
    events,
    status: () => status,
    until: async (ready: () => boolean) => {
      for (let i = 0; i < 400 && !ready(); i++) await new Promise((resolve) => setTimeout(resolve, 25));
      expect(ready(), JSON.stringify(events)).toBe(true);
    },
    close: () => req.destroy(),
  };
}

describe("/api/v1 of a running gpve", () => {
  it("is alive and ready, and describes itself", async () => {
    expect((await v1("GET", "/healthz", undefined, {}, {})).status).toBe(200);
    expect((await v1("GET", "/readyz", undefined, {}, {})).body).toMatchObject({ status: "ok" });
    const { kinds } = (await v1("GET", "")).body as unknown as { kinds: { kind: string }[] };
    expect(kinds.map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(["Node", "Tenant", "VirtualMachine"]),
    );
    const { body } = await v1("GET", "/openapi.json", undefined, {}, {});
    for (const route of v1Routes()) {
      expect(Object.keys((body["paths"] as Record<string, object>)[`/api/v1${route.path}`] ?? {})).toContain(
        route.method.toLowerCase(),
      );
    }
    const coverage = (await v1("GET", "/coverage")).body as unknown as { implemented: number; known: number };
    expect(coverage.implemented).toBeGreaterThan(40);
    expect(coverage.known).toBeGreaterThan(500);
  });

  it("shows the objects that /api2 shows, and the other way round", async () => {
    const pve = apiOf(gpve.credentials);
    expect(
      (await v1("POST", "/tenants", object("Tenant", "shop", { comment: "from v1" }, { tier: "gold" })))
        .status,
    ).toBe(201);
    expect((await pve("GET", "/pools/shop")).json.data).toMatchObject({ comment: "from v1" });
    expect((await pve("PUT", "/pools/shop", { comment: "from api2" })).status).toBe(200);
    expect((await v1("GET", "/tenants/shop")).body).toMatchObject({
      metadata: { labels: { tier: "gold" } },
      spec: { comment: "from api2" },
    });
    expect(
      (await pve("POST", "/access/users", { userid: "ann@pve", password: "correct horse" })).status,
    ).toBe(200);
    expect((await v1("GET", "/users/ann@pve")).body).toMatchObject({
      spec: { enable: true },
      status: { realm: "pve" },
    });
    const grant = object("Binding", undefined, {
      path: "/pool/shop",
      role: "PVEPoolUser",
      subjects: [{ kind: "User", name: "ann@pve" }],
    });
    expect((await v1("POST", "/bindings", grant)).status).toBe(201);
    expect((await pve("GET", "/access/acl")).json.data).toContainEqual({
      path: "/pool/shop",
      type: "user",
      ugid: "ann@pve",
      roleid: "PVEPoolUser",
      propagate: 1,
    });
    const nodes = (await v1("GET", "/nodes")).body.items;
    expect(nodes).toMatchObject([{ kind: "Node", status: { health: "online" } }]);
  });

  it("takes tickets with their CSRF token, and refuses what is forged", async () => {
    const { cookie, csrf } = await login();
    expect((await v1("GET", "/tenants", undefined, {}, cookie)).status).toBe(200);
    const make = (headers: Record<string, string>) =>
      v1("POST", "/tenants", object("Tenant", "csrf", {}), headers, cookie);
    expect((await make({})).status).toBe(401);
    expect((await make({ CSRFPreventionToken: "5F5E1000:forged" })).status).toBe(401);
    expect((await make(csrf)).status).toBe(201);
    const forged = { Authorization: "PVEAPIToken=root@pam!up=00000000-0000-0000-0000-000000000000" };
    expect((await v1("GET", "/tenants", undefined, {}, forged)).body).toMatchObject({
      status: 401,
      code: "auth.failed",
    });
    expect((await v1("GET", "/tenants", undefined, {}, {})).status).toBe(401);
  });

  it("lets exactly one of many writers win each version", async () => {
    const { body } = await v1("POST", "/tenants", object("Tenant", "race", {}));
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_value, n) =>
        v1("PUT", "/tenants/race", { ...body, spec: { comment: `writer ${n}` } }),
      ),
    );
    expect(answers.map((answer) => answer.status).toSorted((a, b) => a - b)).toEqual([
      200,
      ...Array<number>(19).fill(409),
    ]);
  });

  it("applies many objects as a task, and shows its log", async () => {
    const objects = [
      object("Binding", undefined, {
        path: "/pool/team",
        role: "TeamRole",
        subjects: [{ kind: "User", name: "bob@pve" }],
      }),
      object("User", "bob@pve", { comment: "by apply" }),
      object("Tenant", "team", {}),
      object("Role", "TeamRole", { privileges: ["Pool.Audit"] }),
    ];
    const plan = await v1("POST", "/plan", { objects });
    expect(plan.body).toMatchObject({ applicable: true });
    const applied = await v1("POST", "/apply", { objects }, { "Idempotency-Key": "apply-1" });
    expect(applied.status).toBe(202);
    const upid = String(applied.body["task"]);
    expect(await taskOf(upid)).toMatchObject({
      spec: { type: "applyobjects" },
      status: { phase: "succeeded", exitStatus: "OK" },
    });
    expect((await v1("POST", "/apply", { objects }, { "Idempotency-Key": "apply-1" })).body["task"]).toBe(
      upid,
    );
    const log = (await v1("GET", `/tasks/${encodeURIComponent(upid)}/log`)).body as unknown as {
      lines: { t: string }[];
    };
    expect(log.lines.map((line) => line.t).join("\n")).toContain("Role TeamRole: created");
    expect((await v1("POST", "/apply", { objects })).status).toBe(200);
  });

  it("probes its node as a task, and tells what the node can do", async () => {
    const [node] = (await v1("GET", "/nodes")).body.items;
    const name = node?.metadata.name ?? "";
    const probed = await v1("POST", `/nodes/${name}/probe`);
    expect(probed.status).toBe(202);
    expect((await taskOf(String(probed.body["task"]))).status.phase).toBe("succeeded");
    const { body } = await v1("GET", `/nodes/${name}/capabilities`);
    expect((body["capabilities"] as { name: string }[]).map((one) => one.name)).toContain("kvm");
  });

  it("invites nodes, and keeps an unbroken audit log of it all", async () => {
    const invited = await v1("POST", "/join-tokens", { ttlSeconds: 60 });
    expect(invited.body["token"]).toMatch(/^gpve-join\./);
    const { body } = await v1("GET", "/audit?limit=5&resource=/api/v1/join-tokens");
    expect(body["entries"]).toMatchObject([
      { verb: "create", resource: "/api/v1/join-tokens", statusCode: 201 },
    ]);
    expect(JSON.stringify(body)).not.toContain(String(invited.body["token"]));
    expect((await v1("GET", "/audit/verify")).body).toMatchObject({ ok: true });
  });

  it("watches across a kill -9: what was answered is there, and a retry is not a second change", async () => {
    const watch = openWatch("/tenants?watch=1");
    await watch.until(() => watch.events.some(({ event }) => event === "BOOKMARK"));
    await v1("POST", "/tenants", object("Tenant", "seen", {}));
    await watch.until(() => watch.events.some(({ name }) => name === "seen"));
    const last = watch.events.at(-1)?.id ?? "";
    const made = await v1("POST", "/tenants", object("Tenant", "once", {}), { "Idempotency-Key": "kill-1" });
    expect(made.status).toBe(201);
    await gpve.kill();
    gpve = await gpve.restart();

    const again = await v1("POST", "/tenants", object("Tenant", "once", {}), { "Idempotency-Key": "kill-1" });
    expect([again.status, again.body]).toEqual([201, made.body]);
    expect((await v1("GET", "/tenants/once")).body.metadata.uid).toBe(made.body.metadata.uid);
    // The new process may not know the changes in between: then it says so, and the client lists again.
    const resumed = openWatch("/tenants?watch=1", last);
    await resumed.until(() => resumed.status() !== 0);
    expect([200, 410]).toContain(resumed.status());
    resumed.close();
    const fresh = openWatch("/tenants?watch=1");
    await fresh.until(() => fresh.events.some(({ event }) => event === "BOOKMARK"));
    expect(fresh.events.map(({ name }) => name)).toEqual(expect.arrayContaining(["once", "seen"]));
    await v1("DELETE", "/tenants/once");
    await fresh.until(() => fresh.events.some(({ event, name }) => event === "DELETED" && name === "once"));
    fresh.close();
    watch.close();
  });

  it("records that a login failed", async () => {
    const answer = await apiOf(gpve.credentials, {})("POST", "/access/ticket", {
      username: "mallory@pve",
      password: "guess",
    });
    expect(answer.status).toBe(401);
    for (let i = 0; i < 100; i++) {
      const { body } = await v1("GET", "/events?fieldSelector=spec.reason%3DLoginFailed");
      if (body.items.length > 0) {
        expect(body.items).toMatchObject([{ spec: { object: { kind: "User", name: "mallory@pve" } } }]);
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect.unreachable("no event was recorded");
  });
});

describe("permissions below /, asked of both faces", () => {
  const role = { roleid: "Worker", privs: "VM.Audit VM.Config.Options VM.PowerMgmt" };
  /** Path, role, propagate; then what the subject may of VMs 100 and 101: see, change. */
  const subjects: readonly (readonly [string, readonly (readonly [string, string, 0 | 1])[], string])[] = [
    ["none", [], "-- --"],
    ["one", [["/vms/100", "Worker", 1]], "sc --"],
    ["flat", [["/vms", "Worker", 0]], "-- --"],
    ["all", [["/vms", "Worker", 1]], "sc sc"],
    [
      "but-one",
      [
        ["/vms", "Worker", 1],
        ["/vms/100", "NoAccess", 1],
      ],
      "-- sc",
    ],
    [
      "sees",
      [
        ["/", "PVEAuditor", 1],
        ["/vms/101", "Worker", 0],
      ],
      "s- sc",
    ],
    ["pool", [["/pool/p", "Worker", 1]], "sc --"],
    [
      "pool-but-vm",
      [
        ["/pool/p", "Worker", 1],
        ["/vms/100", "NoAccess", 0],
      ],
      "-- --",
    ],
    // Tokens have what they were given and their user has.
    ["all!own", [["/vms/101", "Worker", 1]], "-- sc"],
    ["one!more", [["/", "Administrator", 1]], "sc --"],
    ["all!none", [], "-- --"],
  ];

  it("are the same on a running server, for users and tokens", async () => {
    const admin = apiOf(gpve.credentials);
    const done = async (...asked: Parameters<typeof admin>): Promise<Answer> => {
      const answer = await admin(...asked);
      expect(answer.status, `${asked[0]} ${asked[1]}: ${answer.reason}`).toBe(200);
      return answer;
    };
    const [{ node }] = (await done("GET", "/nodes")).data as [{ node: string }];
    for (const vmid of [100, 101]) await done("POST", `/nodes/${node}/qemu`, { vmid });
    await done("POST", "/pools", { poolid: "p" });
    await expect.poll(async () => (await admin("PUT", "/pools/p", { vms: 100 })).status).toBe(200);
    await done("POST", "/access/roles", role);
    const seen: string[] = [];
    for (const [name, grants] of subjects) {
      const [user, token] = name.split("!");
      const userid = `${user}@pve`;
      if (token === undefined) await done("POST", "/access/users", { userid, password: "a long password" });
      const made = await done("POST", `/access/users/${userid}/token/${token ?? "itself"}`, {
        privsep: token === undefined ? 0 : 1,
      });
      const id = token === undefined ? { users: userid } : { tokens: `${userid}!${token}` };
      for (const [path, roles, propagate] of grants)
        await done("PUT", "/access/acl", { path, roles, propagate, ...id });
      const { value } = made.data as { value: string };
      const auth = { Authorization: `PVEAPIToken=${userid}!${token ?? "itself"}=${value}` };
      const api2 = apiOf(gpve.credentials, auth);
      const both = async (vmid: number): Promise<string> => {
        const path = `/nodes/${node}/qemu/${vmid}/config`;
        const label = { metadata: { labels: { by: user } } };
        const statuses = [
          [
            (await api2("GET", path)).status,
            (await v1("GET", `/virtualmachines/${vmid}`, undefined, {}, auth)).status,
          ],
          [
            (await api2("PUT", path, { description: name })).status,
            (await v1("PATCH", `/virtualmachines/${vmid}`, label, {}, auth)).status,
          ],
        ] as const;
        const word = ([pve, ours]: readonly [number, number], letter: string): string =>
          pve === 200 && ours === 200 ? letter : pve === 403 && ours === 403 ? "-" : `[${pve}/${ours}]`;
        return word(statuses[0], "s") + word(statuses[1], "c");
      };
      seen.push(`${name}: ${await both(100)} ${await both(101)}`);
    }
    expect(seen).toEqual(subjects.map(([name, , expected]) => `${name}: ${expected}`));
  });
});
