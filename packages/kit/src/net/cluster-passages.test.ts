import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "../clock.ts";
import { type PassageTarget, ClusterPassages } from "./cluster-passages.ts";

const servers: Server[] = [];
const sockets = new Set<Socket>();
const passages: ClusterPassages[] = [];

afterEach(() => {
  for (const each of passages) each.close();
  for (const socket of sockets) socket.destroy();
  for (const server of servers) server.close();
  servers.length = 0;
});

async function listening(onSocket: (socket: Socket) => void): Promise<PassageTarget & { server: Server }> {
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    onSocket(socket);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { host: "127.0.0.1", port: (server.address() as AddressInfo).port, server };
}

/** A replica: repeats what it is told, with its own name before it. */
const replica = (name: string) =>
  listening((socket) => socket.on("data", (chunk: Buffer) => socket.write(`${name}:${chunk.toString()}`)));

/** As the listener of a server does: has read the first bytes. */
async function entrance(targets: () => readonly PassageTarget[], more: object = {}) {
  const made = new ClusterPassages({
    targets: (name) => (name === "trio.default.vc.gpve" ? targets() : undefined),
    clock: systemClock,
    ...more,
  });
  passages.push(made);
  expect(made.passOn("other")).toBeUndefined();
  const { port } = await listening((socket) =>
    socket.once("data", (first: Buffer) => {
      socket.pause();
      made.passOn("trio.default.vc.gpve")?.(socket, first);
    }),
  );
  return (
    words: string,
  ): { readonly socket: Socket; readonly heard: () => string; readonly ended: Promise<void> } => {
    const socket = connect({ host: "127.0.0.1", port }, () => socket.write(words));
    sockets.add(socket);
    let heard = "";
    socket.on("data", (chunk: Buffer) => (heard += chunk.toString()));
    socket.on("error", () => socket.destroy());
    const ended = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    return { socket, heard: () => heard, ended };
  };
}

describe("connections for clusters of several replicas", () => {
  test("go to the first that answers, with the words that the others did not hear", async () => {
    const deaf = await listening(() => undefined);
    const gone = await replica("gone");
    gone.server.close();
    const hanging = await listening((socket) => socket.destroy());
    const well = await replica("well");
    const ask = await entrance(() => [gone, deaf, hanging, well], { answerMs: 200 });
    const { socket, heard } = ask("hello");
    await expect.poll(heard, { timeout: 10_000 }).toBe("well:hello");
    socket.write("again");
    await expect.poll(heard, { timeout: 10_000 }).toBe("well:hellowell:again");
    // Who did not answer is asked last now.
    const second = ask("hi");
    await expect.poll(second.heard, { timeout: 10_000 }).toBe("well:hi");
  });

  test("end where none answers, and where theirs does not take connections any more", async () => {
    const ask = await entrance(() => [], { answerMs: 200 });
    await ask("hello").ended;
    const well = await replica("well");
    const other = await entrance(() => [well], { answerMs: 500, lookMs: 50 });
    const { heard, ended } = other("hello");
    await expect.poll(heard, { timeout: 10_000 }).toBe("well:hello");
    // Its port is closed, and the connection that stands hears nothing of that: as with a node without power.
    well.server.close();
    await ended;
    expect(heard()).toBe("well:hello");
  });

  test("wait for one that may sleep, and nobody looks whether it is there meanwhile", async () => {
    let [connections, answer] = [0, (): void => undefined];
    const sleeper = await listening((socket) => {
      connections++;
      socket.once("data", (chunk: Buffer) => (answer = () => void socket.write(`awake:${chunk.toString()}`)));
    });
    const ask = await entrance(() => [{ ...sleeper, isThere: () => true }], { answerMs: 50, lookMs: 20 });
    const { heard, socket } = ask("hello");
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(heard()).toBe("");
    answer();
    await expect.poll(heard, { timeout: 10_000 }).toBe("awake:hello");
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(connections).toBe(1);
    socket.destroy();
    // Who gives up is not waited for there either.
    const gone = ask("bye");
    await expect.poll(() => connections, { timeout: 10_000 }).toBe(2);
    gone.socket.destroy();
  });

  test("wait for one without replicas to wake, leave it alone, and end when its node is gone", async () => {
    let [isOnline, connections] = [true, 0];
    const slow = await listening((socket) => {
      connections++;
      socket.once("data", () => setTimeout(() => socket.write("awake"), 400));
    });
    const target = { ...slow, isThere: () => isOnline };
    const ask = await entrance(() => [target], { answerMs: 100, lookMs: 50 });
    const { heard, ended } = ask("hello");
    await expect.poll(heard, { timeout: 10_000 }).toBe("awake");
    await new Promise((resolve) => setTimeout(resolve, 200));
    // Whether it is there is asked of nobody who would wake it.
    expect(connections).toBe(1);
    isOnline = false;
    await ended;
  });

  test("end with the server", async () => {
    const well = await replica("well");
    const ask = await entrance(() => [well]);
    const { heard, ended } = ask("hello");
    await expect.poll(heard, { timeout: 10_000 }).toBe("well:hello");
    passages.at(-1)?.close();
    await ended;
  });
});
