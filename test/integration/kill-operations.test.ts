// kill -9 of the whole product in the middle of 200 queued operations: after a start every one is done or undone.
import { afterAll, beforeAll, expect, test } from "vitest";
import { apiOf, startGpve, type Api, type Gpve } from "../support/gpve.ts";

const OPERATIONS = 200;
const STEPS = 4;
const json = { "Content-Type": "application/json" };

let gpve: Gpve;
beforeAll(async () => {
  gpve = await startGpve();
});
afterAll(() => gpve.stop());

/** Each operation makes its own tenants and changes a shared one, so that all of them queue behind each other. */
async function submit(v1: Api, at: number): Promise<string> {
  const own = Array.from({ length: STEPS - 1 }, (_, step) => `op${at}-${step}`);
  const objects = [...own, "shared"].map((name) => ({
    apiVersion: "gpve.io/v1",
    kind: "Tenant",
    metadata: { name },
    spec: { comment: `operation ${at}` },
  }));
  const answer = await v1(
    "POST",
    "/apply",
    {},
    { ...json, "Idempotency-Key": `op-${at}` },
    JSON.stringify({ objects }),
  );
  const upid = /UPID:[^"]+:/.exec(answer.text)?.[0];
  if (upid === undefined)
    throw new Error(`operation ${at} was not accepted: ${answer.status} ${answer.text}`);
  return upid;
}

test("none is stuck, none runs twice, none is left half-done", async () => {
  const before = apiOf(gpve.credentials, undefined, "/api/v1");
  await apiOf(gpve.credentials)("POST", "/pools", { poolid: "shared" });
  const upids: string[] = [];
  for (let at = 0; at < OPERATIONS; at += 20) {
    const batch = Array.from({ length: 20 }, (_, offset) => submit(before, at + offset));
    upids.push(...(await Promise.all(batch)));
  }
  expect(new Set(upids).size).toBe(OPERATIONS);
  await gpve.kill();
  gpve = await gpve.restart();

  const api = apiOf(gpve.credentials);
  const node = upids[0]?.split(":")[1] ?? "";
  const outcomes = new Map<string, string>();
  const end = Date.now() + 120_000;
  while (outcomes.size < OPERATIONS && Date.now() < end) {
    for (const upid of upids.filter((each) => !outcomes.has(each))) {
      const task = (await api("GET", `/nodes/${node}/tasks/${encodeURIComponent(upid)}/status`)).data as {
        status: string;
        exitstatus?: string;
      };
      if (task.status === "stopped") outcomes.set(upid, task.exitstatus ?? "");
    }
    await new Promise((done) => setTimeout(done, 100));
  }
  expect(outcomes.size, "operations that never ended").toBe(OPERATIONS);

  const pools = new Set(((await api("GET", "/pools")).data as { poolid: string }[]).map((row) => row.poolid));
  let done = 0;
  for (const [at, upid] of upids.entries()) {
    const made = Array.from({ length: STEPS - 1 }, (_, step) => pools.has(`op${at}-${step}`));
    const ok = outcomes.get(upid) === "OK";
    if (ok) done++;
    expect(made, `operation ${at} ended with ${outcomes.get(upid)}`).toEqual(made.map(() => ok));
    const log = (await api("GET", `/nodes/${node}/tasks/${encodeURIComponent(upid)}/log`, { limit: 0 }))
      .data as { t: string }[];
    const ends = log.filter(({ t }) => t.startsWith("TASK "));
    expect(ends, `log of operation ${at}`).toHaveLength(1);
  }
  console.log(`${done} operations were done, ${OPERATIONS - done} undone after the kill`);
  expect(done).toBeGreaterThan(OPERATIONS / 2);

  // The same key again gives the same operation, also after the crash.
  expect(await submit(apiOf(gpve.credentials, undefined, "/api/v1"), 0)).toBe(upids[0]);
});
