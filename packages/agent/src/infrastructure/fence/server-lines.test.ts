import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { Channel } from "@gpve/kit/grpc/channel.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { expect, test } from "vitest";
import type { AgentIdentity } from "../server-link/identity.ts";
import { ServerLines } from "./server-lines.ts";

const identity = (certPem: string): AgentIdentity => ({ caPem: "ca", certPem, keyPem: "key" });

function lines(renewed: () => AgentIdentity | undefined) {
  const clock = new FakeClock();
  const open: string[] = [];
  const connected: string[] = [];
  const endpoints = ["https://a", "https://b"];
  const made = new ServerLines(
    {
      endpoints: () => endpoints,
      clock,
      identity: async () => renewed(),
      open: (url, { certPem }) => {
        const name = `${url} ${certPem}`;
        open.push(name);
        return {
          transport: name as unknown as Channel["transport"],
          connect: async () => {
            if (url === "https://a") throw new Error("refused");
            connected.push(name);
          },
          close: () => void open.splice(open.indexOf(name), 1),
        };
      },
    },
    identity("first"),
  );
  return { made, open, connected, clock, endpoints };
}

test("each server has a line, with the newest certificate; old ones stay for what is on its way", async () => {
  const { made, open, clock } = lines(() => identity("second"));
  expect(made.transport("https://b")).toBe("https://b first");
  await made.reopen();
  expect(made.transport("https://b")).toBe("https://b second");
  expect(open).toHaveLength(4);
  await clock.advance(5_000);
  expect(open).toEqual(["https://a second", "https://b second"]);
  made.close();
  expect(open).toEqual([]);
});

test("all lines are brought up before they are needed; one that cannot be keeps no other down", async () => {
  const { made, connected } = lines(() => undefined);
  await made.keepUp();
  expect(connected).toEqual(["https://b first"]);
});

test("while there is no good certificate the lines stay as they are", async () => {
  const { made, open } = lines(() => undefined);
  await made.reopen();
  expect(open).toEqual(["https://a first", "https://b first"]);
  expect(() => made.transport("https://c")).toThrow("no line to https://c");
});

test("lines are kept up while there are guests to lose, and opened anew with what certificate there is", async () => {
  const { made, connected, clock } = lines(() => identity("second"));
  let isNeeded = false;
  const stop = made.keep(() => isNeeded, silentLogger);
  await clock.advance(60_000);
  expect(connected).toEqual([]);
  isNeeded = true;
  await clock.advance(10_000);
  expect(connected).toEqual(["https://b first", "https://b first"]);
  isNeeded = false;
  await clock.advance(600_000);
  expect(made.transport("https://b")).toBe("https://b second");
  stop();
  isNeeded = true;
  await clock.advance(60_000);
  expect(connected).toHaveLength(2);
});

test("a server that joins has a line within seconds, one that leaves has none soon after, others keep theirs", async () => {
  const { made, open, clock, endpoints } = lines(() => undefined);
  const stop = made.keep(() => false, silentLogger);
  const kept = made.transport("https://b");
  endpoints.splice(0, 1);
  endpoints.push("https://c");
  await clock.advance(5_000);
  expect(made.urls()).toEqual(["https://b", "https://c"]);
  expect(made.transport("https://b")).toBe(kept);
  // What was asked there may still be answered.
  expect(open).toContain("https://a first");
  await clock.advance(5_000);
  expect(open).toEqual(["https://b first", "https://c first"]);
  stop();
});
