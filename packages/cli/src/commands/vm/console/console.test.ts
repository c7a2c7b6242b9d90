import { describe, expect, test } from "vitest";
import type { FakeSocket } from "@gpve/client/testing/fake-socket.ts";
import { Gpvectl } from "../../../testing/run-gpvectl.ts";

const base = "/nodes/n1/qemu/100";

/** A guest that prompts, echoes in capitals, and ends at "bye". */
function guest(message: Buffer, socket: FakeSocket): void {
  const text = message.toString("latin1");
  if (text === "root@pam:PVEVNC:1\n") socket.say("OK# ");
  const keys = /^0:\d+:(.*)$/s.exec(text)?.[1];
  if (keys !== undefined) socket.say(`${keys.toUpperCase()}# `);
  if (keys?.includes("bye") === true) socket.end();
}

async function withGuest(): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  ctl.api
    .pve("GET /cluster/resources", [{ type: "qemu", vmid: 100, name: "web", node: "n1" }])
    .pve(`POST ${base}/termproxy`, { port: "5900", ticket: "PVEVNC:1", user: "root@pam", upid: "UPID:n1:1:" })
    .onSocket(guest);
  return ctl;
}

async function* typed(...keys: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const key of keys) {
    // One turn, so that answers can come between.
    await new Promise((resolve) => setImmediate(resolve));
    yield Buffer.from(key, "latin1");
  }
}

async function* forever(...keys: readonly string[]): AsyncGenerator<Uint8Array> {
  yield* typed(...keys);
  await new Promise(() => undefined);
}

describe("vm console", () => {
  test("types what is on standard input, prints what the guest says, and ends in silence", async () => {
    await using ctl = await withGuest();
    expect(await ctl.run(["vm", "console", "web"], { keys: typed("ls\n") })).toEqual({
      code: 0,
      out: "# LS\n# ",
      err: "",
    });
    expect(ctl.api.sockets[0]).toMatchObject({ text: "root@pam:PVEVNC:1\n0:3:ls\n", isClosed: true });
    const opened = ctl.api.last(`GET /api2/json${base}/vncwebsocket`);
    expect(opened.query.toString()).toBe("port=5900&vncticket=PVEVNC%3A1");
    expect(opened.headers["authorization"]).toBe("PVEAPIToken=root@pam!up=x");
  });

  test("in a terminal tells its size and leaves at Ctrl-]", async () => {
    await using ctl = await withGuest();
    const ran = await ctl.run(["vm", "console", "100"], { terminal: 80, keys: forever("a", "b\u001dc") });
    expect(ran.code).toBe(0);
    expect(ran.err).toContain("Ctrl-] leaves it");
    expect(ran.err).toContain("Left the console; VM 100 runs on.");
    expect(ctl.api.sockets[0]?.text).toBe("root@pam:PVEVNC:1\n1:80:24:0:1:a0:1:b1:80:24:");
  });

  test("ends with the guest", async () => {
    await using ctl = await withGuest();
    const ran = await ctl.run(["vm", "console", "100"], { terminal: 80, keys: forever("bye") });
    expect(ran).toMatchObject({ code: 0, err: expect.stringContaining("The console of VM 100 was closed.") });
    const late = await ctl.run(["vm", "console", "100", "--until", "never"], { keys: typed("bye") });
    expect(late).toMatchObject({ code: 7, err: expect.stringContaining('before the guest said "never"') });
  });

  test("waits for what a script wants to hear, before and after", async () => {
    await using ctl = await withGuest();
    const argv = ["vm", "console", "100", "--when", "# ", "--until", "DONE", "--serial", "serial0"];
    expect(await ctl.run(argv, { keys: typed("done") })).toMatchObject({ code: 0, out: "# DONE# " });
    expect(ctl.api.last(`POST /api2/json${base}/termproxy`).body).toBe("serial=serial0");
    expect(await ctl.run(["vm", "console", "100", "--until", "# "])).toMatchObject({ code: 0, out: "# " });
  });

  test("cuts long pastes into frames", async () => {
    await using ctl = await withGuest();
    await ctl.run(["vm", "console", "100"], { keys: typed("x".repeat(20_000)) });
    expect(ctl.api.sockets[0]?.sent.map((frame) => frame.toString("latin1", 0, 8))).toEqual([
      "root@pam",
      "0:16384:",
      "0:3616:x",
    ]);
  });

  test("says what to do when there is no console", async () => {
    await using ctl = await withGuest();
    ctl.api.pveError(`POST ${base}/termproxy`, 500, "VM 100 not running");
    expect((await ctl.run(["vm", "console", "100"])).err).toContain("Start it: gpvectl vm start 100.");
    ctl.api.pveError(`POST ${base}/termproxy`, 500, "unable to find a serial interface");
    expect((await ctl.run(["vm", "console", "100"])).err).toContain("gpvectl vm set 100 serial0=socket");
    ctl.api.pveError(`POST ${base}/termproxy`, 403, "Permission check failed");
    expect((await ctl.run(["vm", "console", "100"])).code).toBe(4);
    ctl.api.pve(`POST ${base}/termproxy`, null);
    expect((await ctl.run(["vm", "console", "100"])).err).toContain("offer of a console is not one");
  });

  test("refuses a server that does not greet", async () => {
    await using ctl = await withGuest();
    ctl.api.onSocket((_message, socket) => socket.say("NO!"));
    expect((await ctl.run(["vm", "console", "100"])).err).toContain("the console does not know us");
    ctl.api.onSocket((_message, socket) => socket.end());
    expect((await ctl.run(["vm", "console", "100"])).err).toContain("closed before it began");
    const interrupt = new AbortController();
    ctl.api.onSocket(() => interrupt.abort());
    expect((await ctl.run(["vm", "console", "100"], { signal: interrupt.signal })).code).toBe(130);
  });
});
