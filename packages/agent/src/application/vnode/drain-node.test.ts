import { expect, test } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { drainNode } from "./drain-node.ts";

test("a cluster that cannot say who is on a node has not said that nobody is", async () => {
  const lines: string[] = [];
  const say = (line: string): void => void lines.push(line);
  const work = drainNode(
    async ({ method }) =>
      method === "GET"
        ? { status: 500, body: { message: "etcdserver: request timed out" } }
        : { status: 200, body: {} },
    "worker-1",
    { clock: new FakeClock(), signal: new AbortController().signal, log: say, warn: say },
  );
  await expect(work).rejects.toThrow("cannot see who is on worker-1: 500 etcdserver: request timed out");
  expect(lines).toEqual([]);
});
