import { createSocket, type Socket } from "node:dgram";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { askTime } from "./ask-time.ts";

const servers: Socket[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** A server on a port of this machine; undefined: it says nothing. */
async function serve(answer: (question: Buffer, at: number) => Buffer | undefined): Promise<number> {
  const server = createSocket("udp4");
  servers.push(server);
  let asked = 0;
  server.on("message", (question, { port, address }) => {
    asked += 1;
    const reply = answer(question, asked);
    if (reply !== undefined) server.send(reply, port, address);
  });
  await new Promise<void>((resolve) => server.bind(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

function replyTo(question: Buffer, first: number, stratum: number, why = ""): Buffer {
  const reply = Buffer.alloc(48);
  reply[0] = first;
  reply[1] = stratum;
  reply.write(why, 12, "latin1");
  question.copy(reply, 24, 40, 48);
  return reply;
}

test.each<[string, (question: Buffer, at: number) => Buffer | undefined, string | undefined]>([
  ["one that knows the time", (question) => replyTo(question, 0x24, 2), undefined],
  [
    "one whose first answer is lost",
    (question, at) => (at > 1 ? replyTo(question, 0x24, 2) : undefined),
    undefined,
  ],
  [
    "one that is not synchronised",
    (question) => replyTo(question, 0xe4, 2),
    "it does not know the time itself",
  ],
  ["one whose source is none", (question) => replyTo(question, 0x24, 16), "it does not know the time itself"],
  ["one that is asked too often", (question) => replyTo(question, 0x24, 0, "RATE"), "it says RATE"],
  ["something else", (question) => replyTo(question, 0x23, 2), "what answers is no time server"],
  ["an answer to somebody else", () => replyTo(Buffer.alloc(48, 7), 0x24, 2), "nobody answers"],
  ["nobody", () => undefined, "nobody answers"],
])("%s", async (_who, answer, expected) => {
  expect(await askTime("127.0.0.1", await serve(answer), 300)).toBe(expected);
});

test("an address that nothing can be sent to is told", async () => {
  expect(await askTime("255.255.255.255", 123, 300)).toMatch(/EACCES|ENETUNREACH/);
});

test("a port that nobody has refuses, and a name that nobody has is told", async () => {
  const port = await serve(() => undefined);
  servers.pop()?.close();
  expect(await askTime("127.0.0.1", port, 300)).toBe("it refuses");
  expect(await askTime("no-such-host.invalid")).toContain("no-such-host.invalid");
});
