import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { afterEach, expect, it } from "vitest";
import { type AllArgs, allGuestsOperations, type OrderedGuests } from "./all-guests.ts";

let stop = (): Promise<void> => Promise.resolve();
afterEach(() => stop());

async function world(running: readonly number[] = []) {
  const done: string[] = [];
  const kind: OrderedGuests = {
    noun: "VM",
    list: () => [
      { vmid: 100, onboot: true },
      { vmid: 101, onboot: true, startup: "order=1" },
      { vmid: 102, onboot: false },
      { vmid: 103, onboot: true },
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
          run: (ctx) => {
            const { vmid } = ctx.args as { vmid: number };
            done.push(`${type} ${vmid}`);
            if (vmid === 101 && type === "qmshutdown") throw new Error("it does not end");
            return Promise.resolve();
          },
        },
      ],
    });
  for (const operation of allGuestsOperations([kind], engine, (vmid) => vmid === 103))
    engine.register(operation);
  await engine.start();
  stop = () => engine.stop();
  const run = async (type: string, args: AllArgs = {}) => {
    const { upid } = await engine.submit({ type, resources: [], args, actor: "root@pam" });
    return { ...(await engine.wait(upid)), log: logs.lines.get(upid) ?? [] };
  };
  return { run, done };
}

it("starts those that start with the node, in their order, and leaves HA its own", async () => {
  const { run, done } = await world([]);
  expect((await run("startall")).state).toBe("done");
  expect(done).toEqual(["qmstart 101", "qmstart 100"]);
});

it("starts whichever is named or all when forced, but none that runs", async () => {
  const { run, done } = await world([100]);
  await run("startall", { vmids: [102, 103] });
  expect(done.splice(0)).toEqual(["qmstart 102", "qmstart 103"]);
  await run("startall", { force: true });
  expect(done).toEqual(["qmstart 101", "qmstart 102", "qmstart 103"]);
});

it("stops and pauses those that run, those without an order first; one that fails is a warning", async () => {
  const { run, done } = await world([100, 101]);
  const stopped = await run("stopall");
  expect(stopped).toMatchObject({ state: "done", warnings: 1 });
  expect(stopped.log.join()).toContain("it does not end");
  await run("suspendall");
  expect(done).toEqual(["qmshutdown 100", "qmshutdown 101", "qmpause 100", "qmpause 101"]);
});
