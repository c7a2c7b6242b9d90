import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { Channel } from "@gpve/kit/grpc/channel.ts";
import { expect, test } from "vitest";
import type { AgentIdentity } from "../server-link/identity.ts";
import { ServerLines } from "./server-lines.ts";

const identity = (certPem: string): AgentIdentity => ({ caPem: "ca", certPem, keyPem: "key" });

function lines(renewed: () => AgentIdentity | undefined) {
  const clock = new FakeClock();
  const open: string[] = [];
  const made = new ServerLines(
    {
      endpoints: ["https://a", "https://b"],
      clock,
      identity: async () => renewed(),
      open: (url, { certPem }) => {
        const name = `${url} ${certPem}`;
        open.push(name);
        return {
          transport: name as unknown as Channel["transport"],
          connect: async () => undefined,
          close: () => void open.splice(open.indexOf(name), 1),
        };
      },
    },
    identity("first"),
  );
  return { made, open, clock };
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

test("while there is no good certificate the lines stay as they are", async () => {
  const { made, open } = lines(() => undefined);
  await made.reopen();
  expect(open).toEqual(["https://a first", "https://b first"]);
  expect(() => made.transport("https://c")).toThrow("no line to https://c");
});
