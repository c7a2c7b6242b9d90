import { once } from "node:events";
import { createServer, type ClientHttp2Session, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { setImmediate } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Http2Sessions } from "./http2-sessions.ts";

describe("sessions to a peer that goes away", () => {
  let server: Http2Server;
  let manager: Http2Sessions;
  const seen: ServerHttp2Session[] = [];
  const uncaught = vi.fn();

  beforeEach(async () => {
    seen.length = 0;
    uncaught.mockReset();
    process.on("uncaughtException", uncaught);
    server = createServer((_request, response) => response.end("here"));
    server.on("session", (session) => seen.push(session));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    manager = new Http2Sessions(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  });
  afterEach(async () => {
    manager.abort();
    for (const session of seen) session.destroy();
    await new Promise((resolve) => server.close(resolve));
    process.off("uncaughtException", uncaught);
  });

  const get = async (): Promise<ClientHttp2Session | undefined> => {
    const stream = await manager.request("GET", "/", {}, {});
    const session = stream.session as ClientHttp2Session | undefined;
    stream.resume();
    await once(stream, "close");
    return session;
  };
  /** The peer gives its first session up; `asked` is when somebody asked for another before that one had closed. */
  const goAway = async (asked: () => Promise<unknown>): Promise<void> => {
    await vi.waitFor(() => expect(seen).toHaveLength(1), { timeout: 30_000 });
    const closed = once(seen[0] ?? server, "close");
    seen[0]?.close();
    await asked();
    await closed;
    // Errors of a session come with the end of its socket, a few turns later.
    for (let turns = 0; turns < 50; turns++) await setImmediate();
  };

  test("a session that was never used ends alone", async () => {
    expect(await manager.connect()).toBe("idle");
    await goAway(async () => {
      while (seen.length < 2) {
        await manager.connect();
        await setImmediate();
      }
    });
    expect(uncaught.mock.calls).toEqual([]);
    expect(await manager.connect()).toBe("idle");
  });

  test("so does one that was used, and requests go on at the next", async () => {
    const first = await get();
    const again = Promise.withResolvers<unknown>();
    first?.once("goaway", () => again.resolve(manager.connect()));
    await goAway(() => again.promise);
    expect(uncaught.mock.calls).toEqual([]);
    await get();
    expect(seen).toHaveLength(2);
  });

  test("a peer that is not there is told as before", async () => {
    await new Promise((resolve) => server.close(resolve));
    expect(await manager.connect()).toBe("error");
    expect(String(manager.error())).toContain("ECONNREFUSED");
    server = createServer();
    server.listen(0);
  });
});
