import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { systemClock } from "@gpve/kit/clock.ts";
import { expect, test } from "vitest";
import { Endpoints } from "./endpoints.ts";

const link = (url: string) => ({
  url,
  connect: () => Promise.resolve(undefined),
  transport: () => createRouterTransport(() => undefined),
  close: () => undefined,
});

test("gives the last try what is left in whole milliseconds, as gRPC wants it", async () => {
  let now = 0;
  const clock = { ...systemClock, monotonic: () => now };
  const endpoints = new Endpoints({
    links: [link("a"), link("b")],
    clock,
    attemptMs: 3_000,
    deadlineMs: 5_000,
  });
  const asked: [string, number][] = [];
  const answer = await endpoints.call("read", { lost: "repeat" }, ({ url }, { timeoutMs }) => {
    asked.push([url, timeoutMs]);
    if (url === "b") return Promise.resolve("served");
    now += 4_200.37;
    return Promise.reject(new ConnectError("too late", Code.DeadlineExceeded));
  });
  expect(answer).toBe("served");
  expect(asked).toEqual([
    ["a", 3_000],
    ["b", 800],
  ]);
  endpoints.close();
});
