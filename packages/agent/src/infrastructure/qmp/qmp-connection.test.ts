import { afterEach, describe, expect, it } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { FakeQmpServer, FakeRefusal, NO_ANSWER } from "../../testing/fake-qmp-server.ts";
import type { QmpEvent } from "@gpve/domain/vm/qmp/qmp.ts";
import { isQmpRefusal } from "@gpve/domain/vm/qmp/qmp-errors.ts";
import { type QmpConnectOptions, QmpConnection } from "./qmp-connection.ts";

describe("a QMP connection", () => {
  let server: FakeQmpServer;
  const open: QmpConnection[] = [];

  async function connect(options: Partial<QmpConnectOptions> = {}): Promise<QmpConnection> {
    const connection = await QmpConnection.open({ path: server.path, label: "VM 100", ...options });
    open.push(connection);
    return connection;
  }

  afterEach(async () => {
    for (const connection of open.splice(0)) connection.close();
    await server.stop();
  });

  it("reads the greeting and negotiates capabilities before anything else", async () => {
    server = await FakeQmpServer.start();
    const connection = await connect();
    expect(connection.greeting).toEqual({
      version: { major: 7, minor: 2, micro: 22 },
      package: "Fake",
      capabilities: ["oob"],
    });
    expect(server.received.map(({ execute }) => execute)).toEqual(["qmp_capabilities"]);
  });

  it("matches overlapping commands to answers by id, in whatever order they come", async () => {
    server = await FakeQmpServer.start();
    const ids: unknown[] = [];
    server.answer("slow", ({ id }) => {
      ids.push(id);
      return NO_ANSWER;
    });
    server.answer("fast", () => "fast");
    const connection = await connect();
    const slow = connection.execute("slow", { n: 1 });
    expect(await connection.execute("fast")).toBe("fast");
    server.send(`{"return":"slow","id":"${String(ids[0])}"}\n`);
    expect(await slow).toBe("slow");
    expect(server.received[1]?.arguments).toEqual({ n: 1 });
  });

  it("sends commands of one moment together, and those of another one at once", async () => {
    server = await FakeQmpServer.start();
    for (const name of ["a", "b", "c"]) server.answer(name, () => name);
    const connection = await connect();
    const before = server.chunks;
    expect(await Promise.all([connection.execute("a"), connection.execute("b")])).toEqual(["a", "b"]);
    expect(server.chunks - before).toBe(1);
    expect(await connection.execute("c")).toBe("c");
    expect(server.chunks - before).toBe(2);
  });

  it("gives QEMU's class and text when it refuses", async () => {
    server = await FakeQmpServer.start();
    server.answer("device_del", () => new FakeRefusal("Device 'x' not found", "DeviceNotFound"));
    const connection = await connect();
    const err: unknown = await connection.execute("device_del", { id: "x" }).catch((e: unknown) => e);
    expect(err).toMatchObject({
      code: "qmp.failed",
      message: "VM 100 qmp command 'device_del' failed - Device 'x' not found",
      data: { command: "device_del", class: "DeviceNotFound", desc: "Device 'x' not found" },
      pveStatus: 500,
    });
    expect(isQmpRefusal(err, "DeviceNotFound")).toBe(true);
    expect(isQmpRefusal(err, "GenericError")).toBe(false);
    expect(isQmpRefusal(new Error("x"))).toBe(false);
  });

  it("gives up after the time-out, drops the late answer and goes on", async () => {
    server = await FakeQmpServer.start();
    const ids: unknown[] = [];
    server.answer("hang", ({ id }) => {
      ids.push(id);
      return NO_ANSWER;
    });
    server.answer("next", () => 7);
    const clock = new FakeClock();
    const connection = await connect({ clock });
    const outcome = connection.execute("hang", undefined, { timeoutMs: 3_000 }).catch((e: unknown) => e);
    await expect.poll(() => ids.length).toBe(1);
    await clock.advance(3_000);
    expect(await outcome).toMatchObject({
      code: "request.timeout",
      message: "VM 100 qmp command 'hang' failed - got timeout",
    });
    server.send(`{"return":1,"id":"${String(ids[0])}"}\n`);
    expect(await connection.execute("next")).toBe(7);
  });

  it("stops waiting when the caller gives up, before and during the command", async () => {
    server = await FakeQmpServer.start();
    server.answer("hang", () => NO_ANSWER);
    const connection = await connect();
    const abort = new AbortController();
    const running = connection.execute("hang", undefined, { signal: abort.signal });
    abort.abort();
    await expect(running).rejects.toMatchObject({ code: "operation.cancelled" });
    await expect(connection.execute("hang", undefined, { signal: abort.signal })).rejects.toMatchObject({
      code: "operation.cancelled",
    });
  });

  it("fails every waiting command when QEMU dies in the middle of an answer", async () => {
    server = await FakeQmpServer.start();
    server.answer("a", () => NO_ANSWER).answer("b", () => NO_ANSWER);
    const connection = await connect();
    const both = Promise.allSettled([connection.execute("a"), connection.execute("b")]);
    await expect.poll(() => server.received.length).toBe(3);
    server.send('{"return": {"half":');
    server.dropClients();
    for (const outcome of await both)
      expect(outcome).toMatchObject({ status: "rejected", reason: { code: "qmp.disconnected" } });
    await connection.closed;
    expect(connection.isOpen).toBe(false);
    await expect(connection.execute("a")).rejects.toMatchObject({ code: "qmp.disconnected" });
  });

  it("takes answers of many megabytes", async () => {
    server = await FakeQmpServer.start();
    const big = "ü".repeat(4_000_000);
    server.answer("big", () => ({ big }));
    const connection = await connect();
    expect(await connection.execute("big")).toEqual({ big });
  });

  it.each([
    ["no JSON", "what?\n"],
    ["JSON that is not QMP", "[1]\n"],
    ["an answer without id", '{"error":{"class":"GenericError","desc":"Invalid JSON syntax"}}\n'],
    ["a line without end", "x".repeat(5_000)],
  ])("closes a connection that carries %s", async (_what, bytes) => {
    server = await FakeQmpServer.start();
    server.answer("hang", () => NO_ANSWER);
    const connection = await connect({ maxLineBytes: 2_000 });
    const running = connection.execute("hang").catch((e: unknown) => e);
    await expect.poll(() => server.received.length).toBe(2);
    server.send(bytes);
    expect(await running).toMatchObject({ code: "qmp.disconnected" });
    expect(await connection.closed).toBeInstanceOf(Error);
  });

  it("hands events on with QEMU's time", async () => {
    server = await FakeQmpServer.start();
    const events: QmpEvent[] = [];
    await connect({ onEvent: (event) => events.push(event) });
    server.event("SHUTDOWN", { guest: true, reason: "guest-shutdown" });
    server.send('{"event":"RESUME"}\n');
    await expect.poll(() => events).toHaveLength(2);
    expect(events[0]).toEqual({
      name: "SHUTDOWN",
      data: { guest: true, reason: "guest-shutdown" },
      at: 5_002,
    });
  });

  it("says so when nobody greets, nobody listens, or the caller gives up", async () => {
    server = await FakeQmpServer.start();
    server.greets = false;
    await expect(connect({ connectTimeoutMs: 30 })).rejects.toMatchObject({ code: "request.timeout" });
    const abort = new AbortController();
    const waiting = connect({ signal: abort.signal });
    await expect.poll(() => server.clientCount).toBe(1);
    abort.abort();
    await expect(waiting).rejects.toMatchObject({ code: "operation.cancelled" });
    await expect.poll(() => server.clientCount).toBe(0);
    const dropped = connect();
    await expect.poll(() => server.clientCount).toBe(1);
    server.dropClients();
    await expect(dropped).rejects.toMatchObject({ code: "qmp.disconnected" });
    await server.stop();
    await expect(connect()).rejects.toThrow("cannot connect");
  });
});
