import { createServer, connect, type AddressInfo, type Server, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { followLivingServer, type LivingServer } from "./living-server.ts";

const opened: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close();
});

/** Says its name to whoever says anything; `mute` accepts and says nothing, as a frozen process does. */
async function backend(name: string, mute = false): Promise<{ host: string; port: number; server: Server }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("data", (words) => mute || socket.write(`${name} heard ${words.toString()}`));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  opened.push(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((done) => server.close(done));
  });
  return { host: "127.0.0.1", port: (server.address() as AddressInfo).port, server };
}

async function front(
  backends: readonly { host: string; port: number }[],
  lives: (port: number) => boolean,
): Promise<LivingServer> {
  const made = await followLivingServer({
    listen: { host: "127.0.0.1", port: 0 },
    backends,
    probe: ({ port }) => Promise.resolve(lives(port)),
    probeEveryMs: 10,
  });
  opened.push(() => made.close());
  return made;
}

function talk(port: number, words: string): { readonly heard: () => string; readonly closed: () => boolean } {
  let text = "";
  let closed = false;
  const socket = connect({ host: "127.0.0.1", port }, () => socket.write(words));
  socket.on("data", (chunk) => (text += chunk.toString()));
  socket.on("error", () => socket.destroy());
  socket.on("close", () => (closed = true));
  opened.push(() => Promise.resolve(socket.destroy()));
  return { heard: () => text, closed: () => closed };
}

test("connections go to the first server that lives", async () => {
  const [a, b] = [await backend("a"), await backend("b")];
  let dead = 0;
  const { port } = await front([a, b], (of) => of !== dead);
  const before = talk(port, "one");
  await expect.poll(before.heard).toBe("a heard one");
  dead = a.port;
  // Whoever hangs on the dead one is let go, so that he asks again.
  await expect.poll(before.closed).toBe(true);
  const after = talk(port, "two");
  await expect.poll(after.heard).toBe("b heard two");
});

test("words that a frozen server took are said again to another one", async () => {
  const [frozen, b] = [await backend("frozen", true), await backend("b")];
  const { port } = await front([frozen, b], () => true);
  const client = talk(port, "hello");
  await expect.poll(client.heard, { timeout: 5_000 }).toBe("b heard hello");
});

test("where none lives, nobody is let go for it, and a port that refuses is passed over", async () => {
  const [a, b] = [await backend("a"), await backend("b")];
  let lives = true;
  const { port } = await front([a, b], () => lives);
  const client = talk(port, "one");
  await expect.poll(client.heard).toBe("a heard one");
  lives = false;
  await new Promise((done) => setTimeout(done, 60));
  expect(client.closed()).toBe(false);
  a.server.close();
  const next = talk(port, "two");
  await expect.poll(next.heard).toMatch(/heard two/);
});

test("an address in use is an error that says what to do", async () => {
  const a = await backend("a");
  await expect(
    followLivingServer({ listen: a, backends: [], probe: () => Promise.resolve(true) }),
  ).rejects.toThrow(/choose another --listen/);
});
