// The whole product, killed -9 in the middle of 200 operations that came in over REST.
import { readFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { given } from "@gpve/contracts/given.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startGpve, type Gpve } from "../support/gpve.ts";

const COUNT = 200;

interface Task {
  readonly upid: string;
  readonly status: string;
}

let gpve: Gpve;
let agent: Agent;
beforeAll(async () => {
  gpve = await startGpve();
  agent = new Agent({ keepAlive: true, maxSockets: 40, ca: readFileSync(gpve.credentials.caFile) });
});
afterAll(async () => {
  agent.destroy();
  await gpve.stop();
});

function call(
  method: string,
  path: string,
  body?: unknown,
  key?: string,
): Promise<{ readonly status: number; readonly json: Record<string, unknown> }> {
  const { url, token } = gpve.credentials;
  return new Promise((done, fail) => {
    const req = request(
      new URL(path, url),
      {
        method,
        agent,
        headers: {
          Authorization: `PVEAPIToken=${token}`,
          ...(body === undefined ? {} : { "Content-Type": "application/json" }),
          ...given({ "Idempotency-Key": key }),
        },
      },
      (res) => {
        let text = "";
        res.on("data", (chunk: Buffer) => (text += chunk.toString()));
        res.on("error", fail);
        res.on("end", () =>
          done({
            status: res.statusCode ?? 0,
            json: text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {},
          }),
        );
      },
    );
    req.on("error", fail);
    req.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

const names = (n: number): readonly string[] => ["a", "b", "c"].map((part) => `p${n}-${part}`);

function apply(n: number, round = "first"): Promise<string | undefined> {
  const objects = names(n).map((name) => ({
    apiVersion: "gpve.io/v1",
    kind: "Tenant",
    metadata: { name },
    spec: {},
  }));
  return call("POST", "/api/v1/apply", { objects }, `${round}-${n}`).then(({ status, json }) => {
    expect(status, JSON.stringify(json)).toBe(202);
    return json["task"] as string | undefined;
  });
}

async function tasks(source: string): Promise<readonly Task[]> {
  const { json } = await call("GET", `/api2/json/nodes/localhost/tasks?source=${source}&limit=1000`);
  return json["data"] as readonly Task[];
}

describe("./gpve up, killed in the middle of 200 operations", () => {
  it("ends every one done or undone after a restart, none stuck, none twice", async () => {
    const upids = new Map<number, string>();
    const sent = Array.from({ length: COUNT }, (_, n) =>
      apply(n).then(
        (upid) => (upid === undefined ? undefined : upids.set(n, upid)),
        () => undefined,
      ),
    );
    while (upids.size < COUNT / 3) await sleep(5);
    await gpve.kill();
    await Promise.all(sent);
    expect(upids.size).toBeLessThan(COUNT);

    gpve = await gpve.restart();
    while ((await tasks("active")).length > 0) await sleep(50);

    const ended = new Map((await tasks("all")).map(({ upid, status }) => [upid, status]));
    const { json } = await call("GET", "/api2/json/pools");
    const pools = new Set(
      (json["data"] as readonly { readonly poolid: string }[]).map(({ poolid }) => poolid),
    );
    let undone = 0;
    for (let n = 0; n < COUNT; n++) {
      const made = names(n).filter((name) => pools.has(name)).length;
      const upid = upids.get(n);
      if (upid === undefined) {
        // No answer: it was accepted or it was not, but never by halves.
        expect([0, 3]).toContain(made);
        continue;
      }
      const status = ended.get(upid);
      expect(status, `${upid} is unknown`).toBeDefined();
      if (status !== "OK") undone += 1;
      expect(made, `${upid} ended ${status}`).toBe(status === "OK" ? 3 : 0);
    }
    expect(ended.size).toBeLessThanOrEqual(COUNT);
    expect(undone).toBeLessThan(COUNT / 4);
    // Nothing is locked: whatever was undone can be applied again.
    for (let n = 0; n < COUNT; n++) if (!pools.has(`p${n}-a`)) await apply(n, "again");
    while ((await tasks("active")).length > 0) await sleep(50);
    const after = await call("GET", "/api2/json/pools");
    expect(after.json["data"]).toHaveLength(COUNT * 3);
  });
});
