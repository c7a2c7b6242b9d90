import { createServer } from "node:net";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { FakeSocket } from "@gpve/client/testing/fake-socket.ts";
import type { LocalClient } from "../../../io.ts";
import { listenLocally } from "../../../local-listener.ts";
import { Gpvectl, type RunOptions } from "../../../testing/run-gpvectl.ts";
import { greetViewer, respond, rfbReader } from "./rfb-greeting.ts";

const base = "/nodes/n1/qemu/100";
const VERSION = "RFB 003.008\n";

/** A screen that wants the password "12345678", and then repeats everything. */
function screen(kinds: readonly number[], verdict = 0): (message: Buffer, socket: FakeSocket) => void {
  let step = 0;
  return (message, socket) => {
    step += 1;
    if (step === 1) socket.say(Buffer.from([kinds.length, ...kinds]));
    else if (step === 2 && kinds.includes(2)) socket.say(Buffer.alloc(16, 7));
    else if (step === (kinds.includes(2) ? 3 : 2)) socket.say(Buffer.from([0, 0, 0, verdict]));
    else socket.say(message);
  };
}

async function withScreen(onMessage: (message: Buffer, socket: FakeSocket) => void): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  ctl.api
    .pve("GET /cluster/resources", [{ type: "qemu", vmid: 100, name: "web", node: "n1" }])
    .pve(`GET ${base}/status/current`, { status: "running" })
    .pve(`POST ${base}/vncproxy`, { port: 5900, ticket: "T", user: "root@pam", password: "12345678" })
    .onSocket(onMessage);
  const open = ctl.api.openSocket.bind(ctl.api);
  ctl.api.openSocket = (request) => {
    const socket = open(request);
    socket.say(VERSION);
    return socket;
  };
  return ctl;
}

/** A viewer in memory: what it says is scripted, what it hears is kept. */
function viewer(
  ...says: readonly (string | Buffer)[]
): LocalClient & { heard: Buffer[]; closed: Promise<void> } {
  const heard: Buffer[] = [];
  const end = Promise.withResolvers<void>();
  return {
    heard,
    closed: end.promise,
    input: (async function* () {
      for (const piece of says) yield Buffer.from(piece as string, "latin1");
      await new Promise((resolve) => setTimeout(resolve, 20));
    })(),
    write: async (bytes) => {
      heard.push(Buffer.from(bytes));
    },
    close: end.resolve,
  };
}

describe("vm vnc", () => {
  const show = async (
    ctl: Gpvectl,
    client: LocalClient,
    argv: readonly string[] = [],
    options: RunOptions = {},
  ) =>
    ctl.run(["vm", "vnc", "web", "--once", ...argv], {
      ...options,
      onListen: (_where, connectTo) => setImmediate(() => connectTo(client)),
    });

  test("carries a viewer of a socket to the screen, and knows the screen's password itself", async () => {
    await using ctl = await withScreen(screen([2]));
    const client = viewer(VERSION, "\u0001", "\u0001", "hello");
    expect(await show(ctl, client, ["--socket", "web.vnc"])).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^Screen of VM 100: connect a VNC viewer to .*\/web\.vnc\n$/),
    });
    expect(Buffer.concat(client.heard).toString("latin1")).toBe(`${VERSION}\u0001\u0001\0\0\0\0\u0001hello`);
    const sent = ctl.api.sockets[0]?.sent ?? [];
    expect(sent[2]).toEqual(respond(Buffer.alloc(16, 7), "12345678"));
  });

  test("speaks to screens without a password, and tells when one refuses", async () => {
    await using ctl = await withScreen(screen([1]));
    expect((await show(ctl, viewer(VERSION, "\u0001"), ["--socket", "s"])).err).toBe("Ctrl-C ends it.\n");
    ctl.api.onSocket(screen([2], 1));
    expect((await show(ctl, viewer(VERSION, "\u0001"), ["--socket", "s"])).err).toContain(
      "refused its own password",
    );
    ctl.api.onSocket(screen([9]));
    expect((await show(ctl, viewer(VERSION, "\u0001"), ["--socket", "s"])).err).toContain(
      "does not speak VNC",
    );
    expect((await show(ctl, viewer("GET / HTTP/1.1\r\n"), ["--socket", "s"])).err).toContain(
      "A viewer was sent away: the viewer does not speak VNC",
    );
    expect((await show(ctl, viewer("RFB"), ["--socket", "s"])).err).toContain("ended in its greeting");
  });

  test("asks viewers of a port for the password it prints", async () => {
    await using ctl = await withScreen(screen([2]));
    const client = viewer(VERSION, "\u0002", "x".repeat(16));
    const ran = await show(ctl, client, ["-o", "json", "--port", "5901"]);
    expect(JSON.parse(ran.out)).toEqual({
      vmid: 100,
      address: "127.0.0.1:5999",
      password: expect.stringMatching(/^[\w-]{8}$/),
    });
    expect(Buffer.concat(client.heard).toString("latin1")).toContain("wrong password");
    expect(ctl.api.sockets).toEqual([]);
  });

  test("ends when it is interrupted, and wants a running VM", async () => {
    await using ctl = await withScreen(screen([2]));
    const interrupt = new AbortController();
    const ran = await ctl.run(["vm", "vnc", "100"], {
      signal: interrupt.signal,
      onListen: () => setImmediate(() => interrupt.abort()),
    });
    expect(ran.code).toBe(130);
    ctl.api.pve(`GET ${base}/status/current`, { status: "stopped" });
    expect((await ctl.run(["vm", "vnc", "100"])).err).toContain(
      "VM 100 is not running. Start it: gpvectl vm start 100.",
    );
  });
});

describe("greeting a viewer", () => {
  const greet = async (says: readonly (string | Buffer)[], password?: string) => {
    const client = viewer(...says);
    const isIn = await greetViewer(rfbReader(client.input), (bytes) => client.write(bytes), password);
    return { isIn, heard: Buffer.concat(client.heard).toString("latin1", VERSION.length) };
  };

  test("works in every version of the protocol", async () => {
    expect(await greet(["RFB 003.003\n"])).toEqual({ isIn: true, heard: "\0\0\0\u0001" });
    expect(await greet(["RFB 003.007\n", "\u0001"])).toEqual({ isIn: true, heard: "\u0001\u0001" });
    expect(await greet([VERSION, "\u0001"])).toEqual({ isIn: true, heard: "\u0001\u0001\0\0\0\0" });
    const wrong = await greet(["RFB 003.003\n", "y".repeat(16)], "secret");
    expect(wrong).toMatchObject({ isIn: false, heard: expect.stringContaining("\0\0\0\u0002") });
    await expect(greet([VERSION, "\u0005"], "secret")).rejects.toThrow("does not speak VNC");
  });

  test("encrypts by VNC's rules", () => {
    // From the known answer of DES: key 01 01 … mirrored is 80 80 …, the weak key of all-parity bits.
    const key = "\u0080".repeat(8);
    expect(respond(Buffer.from("8000000000000000", "hex"), key).toString("hex")).toBe("95f8a5e5dd31d900");
  });
});

describe("listening on this machine", () => {
  test("a socket is its owner's alone, and a port in use is said", async () => {
    const folder = mkdtempSync(join(tmpdir(), "gpvectl-listen-"));
    const path = join(folder, "s");
    const clients: LocalClient[] = [];
    const listener = await listenLocally({ socket: path }, (client) => clients.push(client));
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const socket = connect(path);
    let heard = "";
    socket.on("data", (chunk) => (heard += chunk.toString()));
    await expect.poll(() => clients.length).toBe(1);
    socket.write("hi");
    for await (const bytes of clients[0]?.input ?? []) {
      await clients[0]?.write(bytes);
      break;
    }
    await expect.poll(() => heard).toBe("hi");
    await listener.close();
    rmSync(folder, { recursive: true });

    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    const { port } = taken.address() as { port: number };
    await expect(listenLocally({ host: "127.0.0.1", port }, () => undefined)).rejects.toThrow("it is in use");
    await new Promise((resolve) => taken.close(resolve));
  });
});
