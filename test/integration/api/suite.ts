// One API suite for every store: what must be true whatever lies underneath.
import type { PveMethod } from "@gpve/contracts/pve/schema.ts";
import { isImplemented } from "@gpve/domain/schema/method-index.ts";
import { pveMethods } from "@gpve/domain/schema/method-table.ts";
import { shapeProblems } from "@gpve/kit/testing/response-shape.ts";
import { beforeAll, describe, expect, test } from "vitest";
import { type Api, apiOf, type Credentials, firstNode } from "../../support/gpve.ts";

export interface ApiTarget {
  readonly credentials: Credentials;
  /** Called once, in the middle of the suite. */
  readonly halfway?: () => Promise<void>;
}

/** Where PVE's own answers, or what clients read of them, are not as its description says. */
const differences = [
  /^\/cluster\/nextid: answer: string/,
  /^\/nodes\/\{node\}\/network: \[\d+\]\.(?:mtu|netmask6): string/,
  /^\/nodes\/\{node\}\/disks\/list: \[\d+\]\.(?:osdid-list: null|mounted: missing)/,
  // true and false, where all others say 1 and 0.
  /^\/nodes\/\{node\}\/capabilities\/qemu\/migration: has-dbus-vmstate: boolean/,
  // Only root may have it, and not by a token.
  /^\/cluster\/backup-info: 403/,
  // Texts, as corosync's configuration has them.
  /^\/cluster\/config\/join: nodelist\[\d+\]\.(?:nodeid|quorum_votes): string/,
  // A lone node.
  /^\/cluster\/config\/join: (?:424 node is not in a cluster|501 )/,
];
/** They start many programs, or wake apt. */
const slow = new Set(["/nodes/{node}/apt/update", "/nodes/{node}/report"]);

/** Reads that need no parameter but the node. */
function plainReads(): PveMethod[] {
  return pveMethods.filter(
    (method) =>
      method.method === "GET" &&
      isImplemented(method) &&
      !slow.has(method.path) &&
      !/\{(?!node\})/.test(method.path) &&
      Object.entries(method.parameters).every(([name, { optional }]) => name === "node" || optional === true),
  );
}

export function defineApiSuite(start: () => Promise<ApiTarget>): void {
  let target: ApiTarget;
  let api: Api;
  let node: string;
  beforeAll(async () => {
    target = await start();
    api = apiOf(target.credentials);
    node = await firstNode(api);
  });
  const login = async (username: string, password: string): Promise<Api> => {
    const answer = await apiOf(target.credentials, {})("POST", "/access/ticket", { username, password });
    expect(answer.status, answer.text).toBe(200);
    const { ticket, CSRFPreventionToken } = answer.data as { ticket: string; CSRFPreventionToken: string };
    return apiOf(target.credentials, {
      Cookie: `PVEAuthCookie=${encodeURIComponent(ticket)}`,
      CSRFPreventionToken,
    });
  };

  describe("access", () => {
    test("a user is made, logs in, sees only what the ACL allows, and is gone when deleted", async () => {
      expect(
        (await api("POST", "/access/users", { userid: "joe@pve", password: "correct horse" })).text,
      ).toBe('{"data":null}');
      expect(await api("POST", "/access/users", { userid: "joe@pve" })).toMatchObject({
        status: 500,
        reason: "create user failed: user 'joe@pve' already exists",
      });
      const joe = await login("joe@pve", "correct horse");
      expect(await joe("POST", "/pools", { poolid: "p1" })).toMatchObject({
        status: 403,
        reason: "Permission check failed (/pool/p1, Pool.Allocate)",
      });
      await api("PUT", "/access/acl", { path: "/pool/p1", users: "joe@pve", roles: "PVEPoolAdmin" });
      expect((await joe("POST", "/pools", { poolid: "p1", comment: "joe's" })).status).toBe(200);
      expect((await joe("GET", "/pools")).data).toEqual([{ poolid: "p1", comment: "joe's" }]);
      const permissions = (await joe("GET", "/access/permissions")).data as Record<
        string,
        Record<string, number>
      >;
      expect(permissions["/pool/p1"]).toMatchObject({ "Pool.Allocate": 1 });
      await api("DELETE", "/access/users/joe@pve");
      expect((await joe("GET", "/version")).status).toBe(401);
      expect((await api("GET", "/access/acl")).data).toEqual([]);
      await api("DELETE", "/pools", { poolid: "p1" });
    });

    test("tokens with and without privilege separation, and their secret only once", async () => {
      await api("POST", "/access/users", { userid: "ann@pve" });
      await api("PUT", "/access/acl", { path: "/", users: "ann@pve", roles: "PVEAuditor" });
      const made = (await api("POST", "/access/users/ann@pve/token/full", { privsep: 0 })).data as {
        value: string;
        "full-tokenid": string;
      };
      expect(made.value).toMatch(/^[0-9a-f-]{36}$/);
      const sep = (await api("POST", "/access/users/ann@pve/token/sep")).data as { value: string };
      const as = (id: string, secret: string): Api =>
        apiOf(target.credentials, { Authorization: `PVEAPIToken=ann@pve!${id}=${secret}` });
      expect((await as("full", made.value)("GET", "/cluster/status")).status).toBe(200);
      expect((await as("sep", sep.value)("GET", "/cluster/status")).status).toBe(403);
      expect(JSON.stringify((await api("GET", "/access/users/ann@pve/token/full")).json)).not.toContain(
        made.value,
      );
      expect((await as("full", "00000000-0000-0000-0000-000000000000")("GET", "/version")).status).toBe(401);
      await api("DELETE", "/access/users/ann@pve");
      expect((await as("full", made.value)("GET", "/version")).status).toBe(401);
    });

    test("roles and groups", async () => {
      await api("POST", "/access/roles", { roleid: "Looker", privs: "Pool.Audit" });
      await api("POST", "/access/groups", { groupid: "g1", comment: "x" });
      await api("POST", "/access/users", { userid: "sue@pve", groups: "g1" });
      expect((await api("GET", "/access/groups/g1")).data).toMatchObject({
        members: ["sue@pve"],
        comment: "x",
      });
      await api("PUT", "/access/roles/Looker", { privs: "Sys.Audit", append: 1 });
      expect((await api("GET", "/access/roles/Looker")).data).toEqual({ "Pool.Audit": 1, "Sys.Audit": 1 });
      for (const path of ["/access/users/sue@pve", "/access/groups/g1", "/access/roles/Looker"]) {
        expect((await api("DELETE", path)).status, path).toBe(200);
      }
    });
  });

  describe("writes at the same time", () => {
    test("fifty clients make fifty pools and see each of their own at once", async () => {
      const ids = Array.from({ length: 50 }, (_, at) => `many-${at}`);
      await Promise.all(
        ids.map(async (poolid) => {
          expect((await api("POST", "/pools", { poolid })).status).toBe(200);
          expect((await api("GET", "/pools", { poolid })).data).toMatchObject([{ poolid }]);
        }),
      );
      expect((await api("GET", "/pools")).data).toHaveLength(50);
    });

    test("one of two that make the same pool is told so", async () => {
      const answers = await Promise.all([1, 2].map(() => api("POST", "/pools", { poolid: "twice" })));
      expect(answers.map((answer) => answer.status).toSorted((a, b) => a - b)).toEqual([200, 500]);
    });
  });

  test("halfway: the store loses what it can lose", async () => {
    await target.halfway?.();
    expect((await api("GET", "/version")).status).toBe(200);
  });

  describe("afterwards", () => {
    test("everything written before is there, and writing goes on", async () => {
      expect((await api("GET", "/pools")).data).toHaveLength(51);
      const ids = Array.from({ length: 51 }, (_, at) => (at === 50 ? "twice" : `many-${at}`));
      for (const poolid of ids) expect((await api("DELETE", "/pools", { poolid })).status, poolid).toBe(200);
      expect((await api("GET", "/pools")).data).toEqual([]);
    });

    test("datacenter options are kept and next ids follow them", async () => {
      await api("PUT", "/cluster/options", { "next-id": "lower=4000,upper=5000", keyboard: "de" });
      expect((await api("GET", "/cluster/options")).data).toMatchObject({
        "next-id": { lower: "4000", upper: "5000" },
        keyboard: "de",
      });
      expect((await api("GET", "/cluster/nextid")).data).toBe("4000");
      await api("PUT", "/cluster/options", { delete: "next-id,keyboard" });
      expect((await api("GET", "/cluster/nextid")).data).toBe("100");
    });

    test("the node answers about itself", async () => {
      const status = (await api("GET", `/nodes/${node}/status`)).data as {
        cpuinfo: { cpus: number };
        loadavg: string[];
        memory: { total: number };
      };
      expect(status.cpuinfo.cpus).toBeGreaterThan(0);
      expect(status.loadavg).toHaveLength(3);
      expect((await api("GET", `/nodes/${node}/version`)).data).toMatchObject({ release: "9.2" });
      expect((await api("GET", `/nodes/${node}/time`)).data).toMatchObject({
        time: expect.any(Number),
        timezone: expect.any(String),
      });
      expect((await api("GET", `/nodes/${node}/tasks`)).status).toBe(200);
      expect(await api("GET", "/nodes/nobody/status")).toMatchObject({ status: 500 });
    });

    test("every read that names nothing but the node has the shape PVE describes", async () => {
      const wrong: string[] = [];
      const waiting = plainReads();
      expect(waiting.length).toBeGreaterThan(100);
      const ask = async (): Promise<void> => {
        for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
          const { path, returns } = next;
          const answer = await api("GET", path.replace("{node}", node));
          if (answer.status !== 200) wrong.push(`${path}: ${answer.status} ${answer.reason}`);
          else wrong.push(...shapeProblems(returns, answer.data).map((problem) => `${path}: ${problem}`));
        }
      };
      await Promise.all([ask(), ask(), ask(), ask()]);
      expect(wrong.filter((line) => !differences.some((known) => known.test(line)))).toEqual([]);
    });

    test("objects of /api/v1 are applied as one operation whose task both faces show", async () => {
      const v1 = apiOf(target.credentials, undefined, "/api/v1");
      const objects = ["a", "b"].map((name) => ({
        apiVersion: "gpve.io/v1",
        kind: "Tenant",
        metadata: { name: `applied-${name}` },
        spec: { comment: name },
      }));
      const answer = await v1(
        "POST",
        "/apply",
        {},
        { "Content-Type": "application/json", "Idempotency-Key": `k-${Date.now()}` },
        JSON.stringify({ objects }),
      );
      expect(answer.status, answer.text).toBeLessThan(300);
      const upid = /UPID:[^"]+:/.exec(answer.text)?.[0] ?? "";
      const taskNode = upid.split(":")[1] ?? "";
      const end = performance.now() + 60_000;
      let status: { status: string; exitstatus?: string };
      do {
        status = (await api("GET", `/nodes/${taskNode}/tasks/${encodeURIComponent(upid)}/status`)).data;
        await new Promise((done) => setTimeout(done, 50));
      } while (status.status !== "stopped" && performance.now() < end);
      expect(status).toMatchObject({ status: "stopped", exitstatus: "OK" });
      expect((await api("GET", "/pools", { poolid: "applied-a" })).data).toMatchObject([{ comment: "a" }]);
      const log = (await api("GET", `/nodes/${taskNode}/tasks/${encodeURIComponent(upid)}/log`)).data as {
        t: string;
      }[];
      expect(log.at(-1)?.t).toBe("TASK OK");
      expect(
        ((await api("GET", "/cluster/tasks")).data as { upid: string }[]).map((row) => row.upid),
      ).toContain(upid);
      for (const name of ["a", "b"]) await api("DELETE", "/pools", { poolid: `applied-${name}` });
    });
  });
}
