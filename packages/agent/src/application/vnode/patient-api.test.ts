import { describe, expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { KubeReply } from "@gpve/domain/vcluster/vnode/ports.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { patientApi } from "./patient-api.ts";

const cluster = { name: "demo" } as KeptCluster;
const get = { method: "GET", path: "/api/v1/nodes" } as const;

/** Answers in order, the last one for ever; an Error is thrown. */
function asked(answers: readonly (KubeReply | Error)[], abort = new AbortController()) {
  const clock = new FakeClock();
  let calls = 0;
  const api = patientApi(async () => {
    const answer = answers[Math.min(calls++, answers.length - 1)];
    if (answer instanceof Error || answer === undefined) throw answer ?? new Error("no answer");
    return answer;
  }, clock);
  const work = api(cluster, get, abort.signal);
  work.catch(() => undefined);
  return { clock, work, calls: () => calls };
}

async function after(seconds: number, { clock }: { readonly clock: FakeClock }): Promise<void> {
  for (let at = 0; at < seconds * 2; at++) {
    await clock.advance(500);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("a patient call to a cluster", () => {
  test("asks again while the API server is not itself, and gives what it says then", async () => {
    const it = asked([
      new Error("socket hang up"),
      { status: 503, body: undefined },
      { status: 200, body: "ok" },
    ]);
    await after(2, it);
    expect(await it.work).toEqual({ status: 200, body: "ok" });
    expect(it.calls()).toBe(3);
  });

  test("gives refusals at once: a disruption budget's too", async () => {
    for (const status of [403, 404, 409, 422, 429]) {
      const it = asked([{ status, body: {} }]);
      expect((await it.work).status).toBe(status);
      expect(it.calls()).toBe(1);
    }
  });

  test("ends with the last answer, or says who did not answer what", async () => {
    const busy = asked([{ status: 500, body: { message: "etcdserver: request timed out" } }]);
    await after(100, busy);
    expect(await busy.work).toMatchObject({ status: 500 });
    const gone = asked([new Error("connect ECONNREFUSED")]);
    await after(100, gone);
    await expect(gone.work).rejects.toThrow(
      "virtual cluster demo did not answer GET /api/v1/nodes for 90 s: connect ECONNREFUSED",
    );
  });

  test("ends when the work does", async () => {
    const abort = new AbortController();
    const it = asked([new Error("connect ECONNREFUSED")], abort);
    await after(1, it);
    abort.abort();
    await after(1, it);
    await expect(it.work).rejects.toThrow();
    expect(it.calls()).toBeLessThan(6);
  });
});
