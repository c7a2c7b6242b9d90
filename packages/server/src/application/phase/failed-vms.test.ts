import { beforeEach, expect, it } from "vitest";
import { guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { FailedVms, resetStateOperation } from "./failed-vms.ts";
import type { ShownPhase } from "./vm-phases.ts";

const joe = { userid: "joe@pve", authid: "joe@pve" };
let phase: ShownPhase["phase"];
let lastType: string;
let calls: string[];
let may: boolean;
const ctx = (): never =>
  ({ actor: joe, access: { has: (_path: string, _names: readonly string[]) => may } }) as unknown as never;

beforeEach(() => {
  [phase, lastType, calls, may] = ["Failed", "qmstart", [], true];
});

async function failed() {
  const { engine } = testEngine();
  engine.register(resetStateOperation);
  await engine.start();
  const guest = guestRecord({ vmid: 100, type: "qemu", node: "n1", conf: "" });
  const ways = new FailedVms({
    phases: {
      of: () => ({ phase, since: 0, last: { type: lastType, ok: false, endedAt: 0, task: {} as never } }),
    },
    guests: { get: (id) => (id === "100" ? ({ value: guest } as never) : undefined) },
    engine,
    calls: {
      call: (async (node: string, route: string) => {
        calls.push(`${node} ${route}`);
        return { data: "UPID:again" };
      }) as never,
    },
  });
  return { ways, engine };
}

const vm = { node: "n1", vmid: "100" };

it("starts again what could not be started", async () => {
  const { ways } = await failed();
  expect(await ways.retry(vm, ctx())).toBe("UPID:again");
  expect(calls).toEqual(["n1 POST /nodes/{node}/qemu/{vmid}/status/start"]);
});

it("refuses to guess the parameters of other work", async () => {
  lastType = "qmigrate";
  const { ways } = await failed();
  await expect(ways.retry(vm, ctx())).rejects.toThrow("what failed was qmigrate");
});

it("resets the state by work that ends well, once per request", async () => {
  const { ways, engine } = await failed();
  const upid = await ways.resetState(vm, ctx(), "r1");
  expect(await ways.resetState(vm, ctx(), "r1")).toBe(upid);
  expect((await engine.wait(upid)).exitStatus).toBe("OK");
  expect(engine.get(upid)?.type).toBe("reset-state");
});

it("does nothing to a VM that has not failed, that is elsewhere, or that is not theirs", async () => {
  const { ways } = await failed();
  may = false;
  await expect(ways.resetState(vm, ctx(), "r")).rejects.toThrow("/vms/100, VM.PowerMgmt");
  may = true;
  await expect(ways.retry({ ...vm, node: "n2" }, ctx())).rejects.toThrow("no VM 100 on node 'n2'");
  phase = "Running";
  await expect(ways.resetState(vm, ctx(), "r")).rejects.toThrow("VM 100 has not failed: it is Running");
  expect(calls).toEqual([]);
});
