import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, test } from "vitest";
import { untilAllowed } from "./await-rights.ts";
import type { KubeAnswer } from "./kube-api.ts";

const credentials = { host: "", port: 0, ca: "", cert: "", key: "" };

function world(answers: (asked: number) => KubeAnswer) {
  const clock = new FakeClock(0);
  const stop = new AbortController();
  const groups: unknown[] = [];
  const work = { credentials, clock, signal: stop.signal };
  const done = untilAllowed("gpve:kubeconfig:1", work, async (_to, { body }) => {
    groups.push((body as { spec: { groups: readonly string[] } }).spec.groups[0]);
    return answers(groups.length);
  });
  return { clock, stop, groups, done };
}

const review = (allowed: boolean): KubeAnswer => ({
  status: 201,
  body: JSON.stringify({ status: { allowed } }),
});

test("a kubeconfig is given out when its group is allowed what it says, and not before", async () => {
  const { clock, groups, done } = world((asked) =>
    asked === 1 ? { status: 403, body: "not yet" } : review(asked > 2),
  );
  let isDone = false;
  const ended = done.then(() => (isDone = true));
  await clock.advance(60);
  expect(isDone).toBe(false);
  await clock.advance(60);
  await ended;
  expect(groups).toEqual(Array(3).fill("gpve:kubeconfig:1"));
});

test("nobody waits for ever, and whoever gives up is not kept", async () => {
  const never = world(() => review(false));
  await never.clock.advance(11_000);
  await never.done;
  const cancelled = world(() => review(false));
  const failed = expect(cancelled.done).rejects.toThrow("gone");
  cancelled.stop.abort(new Error("gone"));
  await cancelled.clock.advance(60);
  await failed;
});
