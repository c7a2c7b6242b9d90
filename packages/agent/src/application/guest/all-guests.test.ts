import { setImmediate } from "node:timers/promises";
import { given } from "@gpve/contracts/given.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { afterEach, expect, it } from "vitest";
import { type AllArgs, allGuestsOperations, type OrderedGuests } from "./all-guests.ts";

let stop = (): Promise<void> => Promise.resolve();
afterEach(() => stop());

async function world(running: readonly number[] = []) {
  const done: string[] = [];
  const busy = { now: 0, most: 0 };
  const kind: OrderedGuests = {
    noun: "VM",
    list: () => [
      { vmid: 100, onboot: true },
      { vmid: 101, onboot: true, startup: "order=1" },
      { vmid: 102, onboot: false },
      { vmid: 103, onboot: true },
      { vmid: 104, onboot: false },
    ],
    isRunning: (vmid) => running.includes(vmid),
    operations: { start: "qmstart", shutdown: "qmshutdown", stop: "qmstop", pause: "qmpause" },
  };
  const { engine, logs } = testEngine();
  for (const type of ["qmstart", "qmshutdown", "qmpause"])
    engine.register({
      type,
      onCrash: "resume",
      steps: [
        {
          name: "one",
          run: async (ctx) => {
            const { vmid } = ctx.args as { vmid: number };
            done.push(`${type} ${vmid}`);
            busy.most = Math.max(busy.most, ++busy.now);
            await setImmediate();
            busy.now--;
            if (vmid === 101 && type === "qmshutdown") throw new Error("it does not end");
          },
        },
      ],
    });
  const isManaged = (vmid: number): boolean => vmid === 103;
  for (const operation of allGuestsOperations({ kinds: [kind], engine, isManaged, workers: () => 4 }))
    engine.register(operation);
  await engine.start();
  stop = () => engine.stop();
  const run = async (type: string, args: AllArgs = {}) => {
    const { upid } = await engine.submit({ type, resources: [], args, actor: "root@pam" });
    return { ...(await engine.wait(upid)), log: logs.lines.get(upid) ?? [] };
  };
  return { run, done, busy };
}

it("starts those that start with the node, in their order, and leaves HA its own", async () => {
  const { run, done } = await world([]);
  expect((await run("startall")).state).toBe("done");
  expect(done).toEqual(["qmstart 101", "qmstart 100"]);
});

it("starts whichever is named or all when forced, but none that runs", async () => {
  const { run, done } = await world([100]);
  await run("startall", { vmids: [100, 102] });
  expect(done.splice(0)).toEqual(["qmstart 102"]);
  await run("startall", { force: true });
  expect(done).toEqual(["qmstart 101", "qmstart 102", "qmstart 104"]);
});

it("leaves those under HA alone, and starts and stops them by HA where they are named", async () => {
  const { run, done } = await world([102, 103]);
  await run("stopall");
  expect(done.splice(0)).toEqual(["qmshutdown 102"]);
  const stopped = await run("stopall", { vmids: [102, 103] });
  expect(done.splice(0)).toEqual(["qmshutdown 102"]);
  expect(stopped.log).toContain("VM 103 is under HA, which is told");
  await run("suspendall");
  expect(done.splice(0)).toEqual(["qmpause 102"]);
  // Paused it runs for HA: that is its node's.
  await run("suspendall", { vmids: [103] });
  expect(done).toEqual(["qmpause 103"]);
});

it("stops no more at the same time than it was told to", async () => {
  for (const [workers, most] of [
    [1, 1],
    [2, 2],
    [undefined, 3],
  ]) {
    const { run, done, busy } = await world([100, 102, 104]);
    await run("stopall", given({ workers }));
    expect(done).toHaveLength(3);
    expect(busy.most).toBe(most);
    await stop();
  }
});

it("stops and pauses those that run, those without an order first; one that fails is a warning", async () => {
  const { run, done } = await world([100, 101]);
  const stopped = await run("stopall");
  expect(stopped).toMatchObject({ state: "done", warnings: 1 });
  expect(stopped.log.join()).toContain("it does not end");
  await run("suspendall");
  expect(done).toEqual(["qmshutdown 100", "qmshutdown 101", "qmpause 100", "qmpause 101"]);
});
