import { describe, expect, test } from "vitest";
import type { LocalAddress, LocalClient } from "../../io.ts";
import { Gpvectl, type RunOptions } from "../../testing/run-gpvectl.ts";
import { localAddress } from "./tunnel.ts";

async function withGuest(): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  ctl.api
    .pve("GET /cluster/resources", [{ type: "qemu", vmid: 100, name: "web", node: "n1" }])
    .onSocket((message, socket) => {
      socket.say(message.toString().toUpperCase());
      socket.end();
    });
  return ctl;
}

/** What it says is scripted, what it hears is kept. */
function local(...says: readonly string[]): LocalClient & { readonly heard: string[] } {
  const heard: string[] = [];
  return {
    heard,
    input: (async function* () {
      for (const piece of says) yield Buffer.from(piece);
      await new Promise(() => undefined);
    })(),
    write: (bytes) => Promise.resolve(void heard.push(Buffer.from(bytes).toString())),
    close: () => undefined,
  };
}

describe("vm tunnel", () => {
  const carry = (ctl: Gpvectl, client: LocalClient, argv: readonly string[], options: RunOptions = {}) =>
    ctl.run(["vm", "tunnel", "web", "80", "--once", ...argv], {
      ...options,
      onListen: (_where, connectTo) => setImmediate(() => connectTo(client)),
    });

  test("carries a connection to the VM's port", async () => {
    await using ctl = await withGuest();
    const client = local("hello");
    expect(await carry(ctl, client, [])).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^Port 80 of VM 100 is at 127\.0\.0\.1:\d+\n$/),
      err: "Ctrl-C ends it.\n",
    });
    expect(client.heard).toEqual(["HELLO"]);
    expect(ctl.api.last("GET /api/v1/virtualmachines/100/tunnel").query.toString()).toBe("port=80");
    // The first was only to know whether there is a way.
    expect(ctl.api.sockets.map(({ text, isClosed }) => [text, isClosed])).toEqual([
      ["", true],
      ["hello", true],
    ]);
  });

  test("listens where it is told to, for the address that is named, and says so to programs", async () => {
    await using ctl = await withGuest();
    let where: LocalAddress | undefined;
    const argv = [
      "vm",
      "tunnel",
      "100",
      "6443",
      "--listen",
      "[::1]:7000",
      "--address",
      "10.0.0.5",
      "-o",
      "json",
    ];
    const ran = await ctl.run([...argv, "--once"], {
      onListen: (asked, connectTo) => {
        where = asked;
        setImmediate(() => connectTo(local("x")));
      },
    });
    expect(where).toEqual({ host: "::1", port: 7000 });
    expect(JSON.parse(ran.out)).toMatchObject({ vmid: 100, port: 6443, address: "10.0.0.5" });
    const asked = ctl.api.last("GET /api/v1/virtualmachines/100/tunnel");
    expect(asked.query.toString()).toBe("port=6443&address=10.0.0.5");
  });

  test("says at once why there is no way, and what is no port", async () => {
    const ctl = await Gpvectl.create();
    await using _ = ctl;
    ctl.api.pve("GET /cluster/resources", [{ type: "qemu", vmid: 100, name: "web", node: "n1" }]);
    const ran = await ctl.run(["vm", "tunnel", "web", "80"]);
    expect(ran).toMatchObject({ code: 3, err: expect.stringContaining("permission denied") });
    expect((await ctl.run(["vm", "tunnel", "web", "0"])).code).toBe(2);
    expect((await ctl.run(["vm", "tunnel", "web", "80", "--listen", "here"])).err).toContain(
      "no address to listen on",
    );
  });

  test("tells of connections that found no way any more, and ends when it is interrupted", async () => {
    await using ctl = await withGuest();
    const interrupt = new AbortController();
    const ran = await ctl.run(["vm", "tunnel", "web", "80"], {
      signal: interrupt.signal,
      onListen: (_where, connectTo) => {
        ctl.api.openSocket = () => {
          throw new Error("it does not run");
        };
        connectTo(local("x"));
        setTimeout(() => interrupt.abort(), 50);
      },
    });
    expect(ran.err).toContain("A connection was sent away: it does not run");
    expect(ran.code).toBe(130);
  });

  test.each([
    ["8080", "127.0.0.1", 8080],
    [":8080", "127.0.0.1", 8080],
    ["0.0.0.0:1", "0.0.0.0", 1],
    ["localhost:65535", "localhost", 65_535],
    ["[::1]:5", "::1", 5],
  ])("%s is an address to listen on", (text, host, port) => {
    expect(localAddress(text)).toEqual({ host, port });
  });

  test.each(["", "a", "1:2:3", "::1:5", "[x]:5", "127.0.0.1:65536", "127.0.0.1:"])("%j is none", (text) => {
    expect(() => localAddress(text)).toThrow("is no address to listen on");
  });
});
