import { beforeEach, describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { consoleTunnels, createConsoleExtensions } from "./console-routes.ts";
import { madeUpRequest, madeUpVmHost } from "../../../testing/made-up-vm.ts";
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import { Consoles } from "./consoles.ts";
import { NodeShells, shellCommand } from "../../node-shells.ts";
import { ConsoleSessions, type ConsoleArgs } from "../../guest/console-sessions.ts";
import { SpiceConsoles } from "./spice-consoles.ts";

class FakeSocket implements ConsoleSocket {
  readonly written: string[] = [];
  isClosed = false;
  readonly #end = Promise.withResolvers<void>();
  readonly closed = this.#end.promise;
  readonly output = this.#read();

  write(chunk: Uint8Array): Promise<void> {
    this.written.push(Buffer.from(chunk).toString());
    return Promise.resolve();
  }

  close(): void {
    this.isClosed = true;
    this.#end.resolve();
  }

  async *#read(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("hello");
    await this.closed;
  }
}

const clock = new FakeClock(0);
let qmp: unknown[];
let sockets: FakeSocket[];
let definition: OperationDefinition<ConsoleArgs>;
let values: Record<string, string>;
let consoles: Consoles;
let spice: SpiceConsoles;
let sessions: ConsoleSessions;
let shells: NodeShells;
let terminals: string[];
let hasSpice: boolean;
let connectFails: AppError | undefined;
let submitFails: Error | undefined;

beforeEach(() => {
  qmp = [];
  sockets = [];
  connectFails = undefined;
  submitFails = undefined;
  values = { serial0: "socket", serial1: "/dev/ttyS0" };
  const process = {
    id: "100",
    hasExited: false,
    qmp: {
      execute: (name: string, args: object) => {
        qmp.push([name, args]);
        return Promise.resolve(name === "query-spice" ? { enabled: hasSpice } : {});
      },
    } as unknown as QemuProcess["qmp"],
  };
  const engine = {
    register: (given: typeof definition) => (definition = given),
    submit: ({ args }: { args: { port: number } }) =>
      submitFails === undefined
        ? Promise.resolve({ upid: `UPID:${args.port}` })
        : Promise.reject(submitFails),
  } as unknown as OperationEngine;
  hasSpice = true;
  const host = madeUpVmHost({ 100: { values, process }, 101: { values: {} } }, { clock });
  const connect = (): Promise<ConsoleSocket> => {
    if (connectFails !== undefined) return Promise.reject(connectFails);
    const socket = new FakeSocket();
    sockets.push(socket);
    return Promise.resolve(socket);
  };
  sessions = new ConsoleSessions({ clock, engine });
  terminals = [];
  const openTerminal = (argv: readonly string[]): ConsoleSocket => {
    terminals.push(argv.join(" "));
    const socket = new FakeSocket();
    sockets.push(socket);
    return socket;
  };
  shells = new NodeShells({ node: "n1", sessions, engine, openTerminal, isRoot: true });
  consoles = new Consoles({ host, engine, sessions, connect, newPassword: () => "password" });
  spice = new SpiceConsoles({ host, connect, newPassword: () => "long password" });
});

const signal = new AbortController().signal;
const offer = (kind: "vnc" | "terminal", more: { vmid?: number; serial?: string; authid?: string } = {}) =>
  consoles.offer({ vmid: 100, kind, authid: "joe@pve", ...more });
const open = (
  port: number,
  more: { authid?: string; vmid?: number; signal?: AbortSignal } = {},
  input = silence(),
) => {
  const { vmid = 100, authid = "joe@pve" } = more;
  return sessions.open({ owner: `/vms/${vmid}`, port, authid }, input, more.signal ?? signal);
};
const parts = () => ({ node: "n1", sessions, consoles, spice, shells });

async function* silence(): AsyncGenerator<Uint8Array> {
  await new Promise(() => undefined);
  yield new Uint8Array();
}

function runTask(port: number, abort = new AbortController()): Promise<void> {
  const step = definition.steps?.[0];
  const ctx = { args: { owner: "/vms/100", port }, signal: abort.signal, log: () => undefined };
  return Promise.resolve(step?.run(ctx as unknown as StepContext<ConsoleArgs>));
}

describe("a VM's console", () => {
  test("is offered on a port and joined once, with a password set for it", async () => {
    const { port, upid, password } = await offer("vnc");
    expect({ port, upid, password }).toEqual({ port: 5900, upid: "UPID:5900", password: "password" });
    const task = runTask(port);
    async function* keys(): AsyncGenerator<Uint8Array> {
      yield Buffer.from("abc");
    }
    const { opened, output } = await open(port, {}, keys());
    expect(opened).toEqual({ kind: "vnc" });
    expect(qmp).toEqual([
      ["set_password", { protocol: "vnc", password: "password", connected: "keep" }],
      ["expire_password", { protocol: "vnc", time: "+30" }],
    ]);
    const seen: string[] = [];
    for await (const chunk of output) seen.push(Buffer.from(chunk).toString());
    expect(seen).toEqual(["hello"]);
    expect(sockets[0]).toMatchObject({ written: ["abc"], isClosed: true });
    await task;
    await expect(open(port)).rejects.toThrow("no console waits on port 5900");
    expect((await offer("vnc")).port).toBe(5901);
  });

  test("is for the one who asked for it, while nobody else is there", async () => {
    const { port } = await offer("vnc");
    await expect(open(port, { authid: "ann@pve" })).rejects.toThrow("no console waits");
    await expect(open(port, { vmid: 101 })).rejects.toThrow("no console waits");
    await open(port);
    await expect(open(port)).rejects.toThrow("in use");
    sessions.close();
    await expect.poll(() => sockets[0]?.isClosed).toBe(true);
  });

  test("is given up when nobody comes", async () => {
    const { port } = await offer("vnc");
    const task = runTask(port).catch((err: unknown) => err);
    await clock.advance(10_000);
    expect(await task).toMatchObject({ message: "connection timed out" });
    await runTask(port);
  });

  test("ends with its task, and its task with a client that leaves", async () => {
    const first = await offer("vnc");
    const abort = new AbortController();
    const task = runTask(first.port, abort).catch((err: unknown) => err);
    await open(first.port);
    abort.abort(new AppError("operation.cancelled", "stopped"));
    expect(await task).toMatchObject({ code: "operation.cancelled" });
    await expect.poll(() => sockets[0]?.isClosed).toBe(true);
    const second = await offer("vnc");
    const client = new AbortController();
    await open(second.port, { signal: client.signal });
    client.abort();
    await expect.poll(() => sockets[1]?.isClosed).toBe(true);
  });

  test("of a serial line goes to the latest client", async () => {
    const first = await offer("terminal");
    const second = await offer("terminal", { serial: "serial0" });
    await open(first.port);
    await open(second.port);
    await expect.poll(() => sockets[0]?.isClosed).toBe(true);
    expect(sockets[1]?.isClosed).toBe(false);
    expect(qmp).toEqual([]);
  });

  test("is refused where there is none", async () => {
    await expect(offer("vnc", { vmid: 101 })).rejects.toThrow("VM 101 not running");
    await expect(offer("terminal", { vmid: 101 })).rejects.toThrow("unable to find a serial interface");
    await expect(offer("terminal", { serial: "serial1" })).rejects.toThrow(
      "unable to find serial interface 'serial1'",
    );
    values["vga"] = "serial0";
    await expect(offer("vnc")).rejects.toThrow("use termproxy");
    expect((await offer("terminal")).port).toBe(5900);
    values["vga"] = "none";
    await expect(offer("vnc")).rejects.toThrow("has no screen (vga: none)");
  });

  test("fails as a whole when its socket cannot be reached or its task not made", async () => {
    const { port } = await offer("vnc");
    const task = runTask(port).catch((err: unknown) => err);
    connectFails = new AppError("internal.error", "cannot connect");
    await expect(open(port)).rejects.toThrow("cannot connect");
    expect(await task).toBe(connectFails);
    submitFails = new Error("no journal");
    await expect(offer("vnc")).rejects.toThrow("no journal");
  });

  test("has a hundred ports", async () => {
    await Promise.all(Array.from({ length: 100 }, (_, at) => offer("vnc", { authid: `u${at % 4}@pve` })));
    await expect(offer("vnc")).rejects.toThrow("unable to find free port (5900-5999)");
  });

  test("leaves ports to others: a user has so many, by whichever token", async () => {
    const asked = Array.from({ length: 25 }, (_, at) =>
      offer("vnc", at % 2 === 0 ? {} : { authid: `joe@pve!t${at}` }),
    );
    await Promise.all(asked);
    await expect(offer("vnc")).rejects.toThrow(/cannot offer a console to joe@pve: 25 of theirs.*close some/);
    await expect(offer("vnc", { authid: "joe@pve!other" })).rejects.toThrow("the most one user may have");
    expect(await offer("vnc", { authid: "joe@pve2" })).toMatchObject({ port: 5925 });
  });

  test("is asked for by servers with a permission, and reached through tunnels", async () => {
    const extension = createConsoleExtensions(parts())["POST /gpve/nodes/{node}/vms/{vmid}/consoles"];
    const actor = { userid: "joe@pve", authid: "joe@pve" };
    const made = await extension(
      { node: "n1", vmid: 100, kind: "terminal", serial: "serial0" },
      madeUpRequest({ actor }),
    );
    expect(made).toMatchObject({ port: 5900 });
    const tunnel = consoleTunnels(parts())["TUNNEL /gpve/nodes/{node}/vms/{vmid}/console"];
    const params = { node: "n1", vmid: 100, port: 5900 };
    await expect(tunnel(params, "eve@pve", silence(), signal)).rejects.toThrow("no console waits");
    expect((await tunnel(params, "joe@pve", silence(), signal)).opened).toEqual({ kind: "terminal" });
  });
});

describe("a shell of the node", () => {
  const ask = (authid: string, command = "login") => {
    const ctx = madeUpRequest({ actor: { userid: authid, authid } });
    return createConsoleExtensions(parts())["POST /gpve/nodes/{node}/shells"]({ node: "n1", command }, ctx);
  };

  test("logs in root of the host, and lets everybody else log in", async () => {
    for (const authid of ["root@pam", "joe@pam"]) {
      const { port } = await ask(authid);
      const tunnel = consoleTunnels(parts())["TUNNEL /gpve/nodes/{node}/shell"];
      const { opened } = await tunnel({ node: "n1", port }, authid, silence(), signal);
      expect(opened).toEqual({ kind: "shell" });
    }
    expect(terminals).toEqual(["/bin/login -f root", "/bin/login"]);
  });

  test("runs upgrades for root alone, and installs no Ceph", async () => {
    expect(shellCommand("root@pam", "upgrade")).toEqual(["/usr/bin/apt-get", "dist-upgrade"]);
    await expect(Promise.resolve(ask("joe@pam", "upgrade"))).rejects.toThrow(
      "Permission check failed (user != root@pam)",
    );
    await expect(Promise.resolve(ask("root@pam", "ceph_install"))).rejects.toThrow("Ceph is not installed");
  });

  test("needs an agent that may log people in", async () => {
    const engine = { register: () => undefined };
    const none = new NodeShells({
      node: "n1",
      sessions,
      engine,
      openTerminal: () => new FakeSocket(),
      isRoot: false,
    });
    await expect(none.offer({ authid: "root@pam", command: "login" })).rejects.toThrow(
      "does not run as root",
    );
  });
});

describe("a SPICE console", () => {
  const ask = (vmid: number) =>
    createConsoleExtensions(parts())["POST /gpve/nodes/{node}/vms/{vmid}/spice"](
      { node: "n1", vmid },
      madeUpRequest(),
    );
  const join = (vmid = 100, by = signal) =>
    consoleTunnels(parts())["TUNNEL /gpve/nodes/{node}/vms/{vmid}/spice"](
      { node: "n1", vmid },
      "",
      silence(),
      by,
    );

  test("has a password for some seconds, and as many channels as a viewer wants", async () => {
    values["name"] = "web";
    expect(await ask(100)).toEqual({ password: "long password", title: "VM 100 - web" });
    expect(qmp.slice(1)).toEqual([
      ["set_password", { protocol: "spice", password: "long password" }],
      ["expire_password", { protocol: "spice", time: "+30" }],
    ]);
    const abort = new AbortController();
    expect((await join()).opened).toEqual({ kind: "spice" });
    await join(100, abort.signal);
    abort.abort();
    expect(sockets.map(({ isClosed }) => isClosed)).toEqual([false, true]);
    await join(100, abort.signal);
    expect(sockets[2]?.isClosed).toBe(true);
    spice.close();
    expect(sockets[0]?.isClosed).toBe(true);
  });

  test("is refused before it is offered, and long after", async () => {
    await expect(join()).rejects.toThrow("no SPICE console of VM 100 was offered");
    expect(await ask(100)).toMatchObject({ title: "VM 100" });
    await clock.advance(61_000);
    await expect(join()).rejects.toThrow("no SPICE console of VM 100 was offered");
  });

  test("needs a running VM that has SPICE", async () => {
    await expect(Promise.resolve(ask(101))).rejects.toThrow("VM 101 not running");
    hasSpice = false;
    await expect(Promise.resolve(ask(100))).rejects.toThrow("no spice port");
  });
});
