import { expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { FakeGuests } from "../../testing/fake-guests.ts";
import { heardLog } from "../../testing/heard-log.ts";
import { watchEnds, type EndWork } from "./guest-end.ts";

const start = (id: string) => ({ id, label: `VM ${id}`, program: "/bin/true", args: [], files: [] });

function watched(work: readonly EndWork[]) {
  const processes = new FakeGuests();
  const { log, lines, fields } = heardLog();
  const stop = watchEnds({ processes, log, kindOf: () => ({ type: "qemu", atEnd: work }), ofEach: [] });
  return { processes, lines, fields, stop };
}

test("an end is told, put right, and forgotten for the next agent", async () => {
  const done: string[] = [];
  const { processes, lines, fields } = watched([
    { what: "helpers", run: async (vmid) => void done.push(`helpers of ${vmid}`) },
    { what: "hook", run: async (_vmid, say) => say("hook: bye") },
  ]);
  const guest = await processes.start(start("100"));
  await guest.end("shutdown");
  await expect.poll(() => done).toEqual(["helpers of 100"]);
  expect(lines).toEqual(["info VM 100 has ended", "info hook: bye"]);
  expect(fields[0]).toMatchObject({ resource: "qemu/100", cause: "shutdown" });
  await expect.poll(async () => (await processes.reopened().adopt()).ended).toEqual([]);
});

test("an end that nobody wanted is a warning, with the last words", async () => {
  const { processes, lines, fields } = watched([]);
  await (await processes.start(start("100"))).end("crashed");
  await expect.poll(() => lines).toEqual(["warn VM 100 has ended"]);
  expect(fields[0]).toMatchObject({ lastWords: "" });
});

test("a helper that ends is told, and nothing of its guest is touched", async () => {
  const touched: number[] = [];
  const { processes, lines } = watched([{ what: "x", run: async (vmid) => void touched.push(vmid) }]);
  await (await processes.start(start("100-tpm"))).end("stopped");
  await expect.poll(() => lines).toEqual(["info VM 100-tpm has ended"]);
  expect(touched).toEqual([]);
});

test("work that cannot begin while no server is in reach keeps no other from its turn", async () => {
  const done: string[] = [];
  const { processes, lines } = watched([
    {
      what: "hook script",
      run: () => {
        throw new AppError("store.unavailable", "no server is in reach");
      },
    },
    { what: "filters", run: async () => void done.push("filters") },
  ]);
  await (await processes.start(start("100"))).end("stopped");
  await expect.poll(() => lines).toEqual(["info VM 100 has ended", "error hook script failed"]);
  expect(done).toEqual(["filters"]);
  await expect.poll(async () => (await processes.reopened().adopt()).ended).toEqual([]);
});

test("a guest that is started again at once is not forgotten", async () => {
  const { processes, lines } = watched([]);
  processes.onExit(({ id }) => void processes.start(start(id)));
  await (await processes.start(start("100"))).end("stopped");
  await expect.poll(() => processes.get("100")).toBeDefined();
  expect(lines.filter((line) => line.startsWith("error"))).toEqual([]);
});

test("who stops looking hears of no further end", async () => {
  const { processes, lines, stop } = watched([]);
  stop();
  await (await processes.start(start("100"))).end("stopped");
  expect(lines).toEqual([]);
});
