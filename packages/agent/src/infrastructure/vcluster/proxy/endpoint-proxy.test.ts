import { mkdtempSync, rmSync } from "node:fs";
import { connect as connectTcp, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { afterEach, describe, expect, test } from "vitest";
import type { FrontMode, FrontRoute } from "@gpve/domain/vcluster/cluster-front.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import { EndpointProxy } from "./endpoint-proxy.ts";
import { passedOnName, passOnWords } from "./pass-on.ts";
import { onLines, sendLine } from "../link/json-lines.ts";
import { ProxyProcess, type ProxyProcessDeps } from "./proxy-process.ts";
import { serveProxy } from "./serve-proxy.ts";

const toClose: { close(): void }[] = [];
afterEach(() => {
  for (const each of toClose.splice(0)) each.close();
});

/** Answers every connection with what it got, in capitals. */
async function echo(): Promise<number> {
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.on("data", (bytes) => socket.write(bytes.toString().toUpperCase()));
  });
  toClose.push(server);
  return listening(server);
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

/** One that nobody has at the moment. */
async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listening(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function world(options: { holdMs?: number; hastyMs?: number; mostHeld?: number } = {}) {
  const [target, port, shared] = [await echo(), await freePort(), await freePort()];
  const wakes: string[] = [];
  const proxy = new EndpointProxy({
    clock: systemClock,
    say: () => undefined,
    wake: (name) => wakes.push(name),
    ...options,
  });
  toClose.push(proxy);
  const route = (mode: FrontMode): FrontRoute => ({
    name: "demo",
    port,
    serverNames: ["demo.default.vc.gpve"],
    target: { host: "127.0.0.1", port: target },
    mode,
  });
  const show = (mode: FrontMode) => proxy.show("127.0.0.1", [route(mode)], { sharedPort: shared });
  return { proxy, port, shared, wakes, show, route };
}

function ask(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connectTcp({ host: "127.0.0.1", port }, () => socket.write(text));
    socket.on("error", reject);
    socket.on("data", (bytes) => {
      resolve(bytes.toString());
      socket.destroy();
    });
    socket.on("close", () => reject(new Error("closed")));
  });
}

describe("the way in", () => {
  test("passes bytes on, and knows when it was used", async () => {
    const { proxy, port, wakes, show } = await world();
    await show("open");
    expect(await ask(port, "hello")).toBe("HELLO");
    expect(proxy.seen()["demo"]?.lastAt).toBeGreaterThan(0);
    expect(wakes).toEqual([]);
  });

  test("holds a thousand who connect to one that sleeps, and asks for it once", async () => {
    const { proxy, port, wakes, show } = await world();
    await show("hold");
    const asked = Array.from({ length: 1_000 }, (_none, at) => ask(port, `word${at}`));
    await expect.poll(() => proxy.seen()["demo"]?.held, { timeout: 20_000 }).toBe(1_000);
    expect([wakes, proxy.wanted()]).toEqual([["demo"], ["demo"]]);
    await show("open");
    expect(await Promise.all(asked)).toEqual(asked.map((_each, at) => `WORD${at}`));
  });

  test("refuses at one that is closed, that is full, or that does not wake", async () => {
    const { proxy, port, show } = await world({ mostHeld: 1 });
    await show("closed");
    await expect(ask(port, "x")).rejects.toThrow();
    await show("hold");
    const first = ask(port, "x");
    first.catch(() => undefined);
    await expect.poll(() => proxy.seen()["demo"]?.held).toBe(1);
    await expect(ask(port, "y")).rejects.toThrow();
    proxy.refuse("demo");
    await expect(first).rejects.toThrow();
    expect(proxy.seen()["demo"]?.held).toBe(0);
  });

  test("lets nobody wait longer than it says", async () => {
    const { port, show } = await world({ holdMs: 50 });
    await show("hold");
    await expect(ask(port, "x")).rejects.toThrow();
  });

  test("cuts those off in time who would give up themselves and ask again, and nobody else", async () => {
    const { port, wakes, show, proxy } = await world({ hastyMs: 200 });
    await show("hold");
    const greet = (ALPNProtocols: string[]): Promise<string> =>
      new Promise((resolve) => {
        const socket = connectTls({ host: "127.0.0.1", port, rejectUnauthorized: false, ALPNProtocols });
        toClose.push({ close: () => socket.destroy() });
        socket.on("error", (err) => resolve(err.message));
        socket.on("close", () => resolve("closed"));
      });
    const patient = [greet(["http/1.1"]), greet([]), ask(port, "plain").catch(() => "closed")];
    expect(await greet(["h2", "http/1.1"])).toMatch(/ECONNRESET|disconnected|hang up|closed/);
    expect([wakes, proxy.seen()["demo"]?.held]).toEqual([["demo"], 3]);
    await show("open");
    expect(await patient[2]).toBe("PLAIN");
  });

  test("passes on what came while it was asleep, in pieces too", async () => {
    const { port, show } = await world();
    await show("hold");
    const socket = connectTcp({ host: "127.0.0.1", port });
    toClose.push({ close: () => socket.destroy() });
    const heard: string[] = [];
    socket.on("data", (bytes) => heard.push(bytes.toString()));
    socket.write("one ");
    await new Promise((resolve) => setTimeout(resolve, 50));
    socket.write("two");
    await new Promise((resolve) => setTimeout(resolve, 50));
    await show("open");
    await expect.poll(() => heard.join("")).toBe("ONE TWO");
  });

  test("says why nobody gets in, and listens once it can", async () => {
    const { proxy, port, show } = await world();
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(port, "127.0.0.1", resolve));
    await show("open");
    expect(proxy.seen()["demo"]?.trouble).toContain("cannot listen");
    await new Promise((resolve) => other.close(resolve));
    await expect.poll(() => proxy.seen()["demo"]?.trouble, { timeout: 10_000 }).toBeUndefined();
    expect(await ask(port, "hello")).toBe("HELLO");
  });

  test("finds a cluster by the name that TLS tells, and no other", async () => {
    const { shared, show, wakes, proxy } = await world();
    await show("hold");
    const hello = (servername: string): Socket => {
      const socket = connectTls({ host: "127.0.0.1", port: shared, servername, rejectUnauthorized: false });
      socket.on("error", () => socket.destroy());
      return socket;
    };
    const unknown = hello("other.default.vc.gpve");
    await new Promise((resolve) => unknown.once("close", resolve));
    expect(wakes).toEqual([]);
    hello("demo.default.vc.gpve");
    await expect.poll(() => wakes).toEqual(["demo"]);
    proxy.refuse("demo");
  });

  test("leads to the node that has a cluster, by name and by the port that it had here, and not in circles", async () => {
    const here = await world();
    const there = await world();
    const serverName = "demo.default.vc.gpve";
    const target = { host: "127.0.0.1", port: there.shared };
    const elsewhere = [{ serverName, port: here.port, target }];
    // Who waits for it here while it moves is led on.
    await here.show("hold");
    await there.show("hold");
    const waiting = ask(here.port, "first");
    await expect.poll(() => here.proxy.seen()["demo"]?.held).toBe(1);
    await here.proxy.show("127.0.0.1", [], { sharedPort: here.shared, elsewhere });
    await expect.poll(() => there.wakes).toEqual(["demo"]);
    await there.show("open");
    expect(await waiting).toBe("FIRST");
    expect(await ask(here.port, "second")).toBe("SECOND");
    // Told of nothing new, it goes on.
    await here.proxy.show("127.0.0.1", [], { sharedPort: here.shared });
    expect(await ask(here.port, "third")).toBe("THIRD");
    expect([here.proxy.seen(), here.wakes]).toEqual([{}, ["demo"]]);
    // The other one thinks that it is here: nobody goes back and forth.
    const back = [{ serverName, target: { host: "127.0.0.1", port: here.shared } }];
    await there.proxy.show("127.0.0.1", [], { sharedPort: there.shared, elsewhere: back });
    await expect(ask(here.port, "fourth")).rejects.toThrow();
    await here.proxy.show("127.0.0.1", [], { elsewhere: [] });
    await expect(ask(here.port, "fifth")).rejects.toThrow();
  });

  test("takes what another proxy says for that, in pieces too, and nothing else", () => {
    const words = Buffer.from(`${passOnWords("demo.default.vc.gpve")}rest`);
    expect(passedOnName(words)).toEqual({
      serverName: "demo.default.vc.gpve",
      rest: Buffer.from("rest"),
    });
    for (const length of [1, 8, 12]) expect(passedOnName(words.subarray(0, length))).toBe("incomplete");
    for (const text of ["GET / HTTP/1.1", "GPVE-VC UPPER\n", `GPVE-VC ${"x".repeat(300)}`, "\u0016"])
      expect(passedOnName(Buffer.from(text))).toBeUndefined();
  });
});

describe("the process of the way in", () => {
  test("is told by an agent, goes on without one, and tells the next who waits", async () => {
    const { port, route } = await world();
    const folder = mkdtempSync(join(tmpdir(), "gpve-proxy-"));
    const path = join(folder, "agent.sock");
    toClose.push(await serveProxy({ control: { path }, clock: systemClock, say: () => undefined }));
    const agent = async () => {
      const heard: Record<string, unknown>[] = [];
      const link = await connectUnixSocket(path);
      onLines(link, (message) => heard.push(message as Record<string, unknown>));
      return { link, heard };
    };
    const first = await agent();
    sendLine(first.link, { seq: 1, host: "127.0.0.1", routes: [route("open")] });
    await expect.poll(() => first.heard).toContainEqual({ ack: 1 });
    first.link.destroy();
    expect(await ask(port, "hello")).toBe("HELLO");
    const second = await agent();
    sendLine(second.link, { seq: 2, host: "127.0.0.1", routes: [route("hold")] });
    await expect.poll(() => second.heard).toContainEqual({ ack: 2 });
    second.link.destroy();
    const waiting = ask(port, "again");
    const third = await agent();
    await expect.poll(() => third.heard).toContainEqual({ wake: "demo" });
    sendLine(third.link, { seq: 3, host: "127.0.0.1", routes: [route("open")] });
    expect(await waiting).toBe("AGAIN");
    rmSync(folder, { recursive: true, force: true });
  });

  test("is told of changes as often as there are any, and nothing piles up", async () => {
    const { route } = await world();
    const folder = mkdtempSync(join(tmpdir(), "gpve-proxy-"));
    const path = join(folder, "agent.sock");
    toClose.push(await serveProxy({ control: { path }, clock: systemClock, say: () => undefined }));
    const warned: string[] = [];
    const hear = (warning: Error): void => void warned.push(warning.message);
    process.on("warning", hear);
    const proxy = new ProxyProcess({
      folder,
      processes: {
        get: () => ({ hasExited: false, socketPath: () => path }) as never,
        start: () => Promise.reject(new Error("it runs")),
        forget: () => Promise.resolve(),
        onExit: () => () => undefined,
      } as ProxyProcessDeps["processes"],
      self: { program: "", args: [], folders: [] },
      clock: systemClock,
      log: silentLogger,
      address: { host: "127.0.0.1", name: "127.0.0.1" },
      sharedPort: 0,
    });
    const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
    await proxy.show([route("open")], undefined);
    const before = timers();
    for (let change = 0; change < 50; change++) await proxy.show([route("open")], undefined);
    expect([timers() - before < 10, warned]).toEqual([true, []]);
    process.off("warning", hear);
    proxy.close();
    rmSync(folder, { recursive: true, force: true });
  });
});
