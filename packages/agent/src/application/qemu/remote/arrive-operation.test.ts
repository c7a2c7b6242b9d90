// A running VM that comes from another cluster, by a line that was offered.
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { expect, it, vi } from "vitest";
import type { FakeGuest } from "../../../testing/fake-guests.ts";
import { contextOf } from "../../../testing/storage-world.ts";
import { VmWorld } from "../../../testing/vm-world.ts";
import { RemoteReceiver } from "./arrive-operation.ts";
import { RemoteArrivals } from "./remote-arrivals.ts";

const TUNNEL = "TUNNEL /gpve/nodes/{node}/vms/{vmid}/mtunnel";
const OFFER = "POST /gpve/nodes/{node}/vms/{vmid}/mtunnel";
const who = { userid: "root@pam", authid: "root@pam!m", tokenid: "m" };

/** `age`: how many seconds ago the VM was made. */
async function target(age = 20) {
  const world = await VmWorld.open();
  for (const command of [
    "nbd-server-start",
    "nbd-server-stop",
    "block-export-add",
    "announce-self",
    "blockdev-add",
    "blockdev-del",
  ])
    world.guests.answers.set(command, () => ({}));
  world.guests.answers.set("query-named-block-nodes", () => []);
  const ctime = Math.floor(world.host.clock.now() / 1_000) - age;
  await world.addWithDisk(300, {
    memory: "128",
    meta: `ctime=${ctime}`,
    vmgenid: "6c0a7f6e-52f7-4a61-8a4a-2d2a60ad5dd4",
  });
  const { engine } = testEngine();
  const joined: string[] = [];
  const connect = async (_process: unknown, name: string): Promise<ConsoleSocket> => {
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    return {
      output: (async function* () {
        yield Buffer.from("pong");
        await closed;
      })(),
      write: async (chunk) => void joined.push(`${name} ${Buffer.from(chunk).toString()}`),
      close: resolve,
      closed,
    };
  };
  const isSame = (a: string, b: string): boolean => a === b;
  const arrivals = new RemoteArrivals({ ...world.host, connect, isSame }, engine);
  const receiver = new RemoteReceiver(world.host, engine, arrivals);
  engine.register(receiver.operation());
  const destroyed: number[] = [];
  engine.register({
    type: "qmdestroy",
    steps: [{ name: "destroy", run: ({ args }) => void destroyed.push((args as { vmid: number }).vmid) }],
  });
  await engine.start();
  const offer = () =>
    receiver.routes()[OFFER]({ node: "n1", vmid: 300 }, { ...contextOf(undefined), actor: who });
  const open = arrivals.tunnels()[TUNNEL];
  return {
    world,
    receiver,
    engine,
    destroyed,
    joined,
    offer,
    open,
    guest: () => world.guests.qemu("300") as FakeGuest | undefined,
    /** Says lines, and gives what is answered to each. */
    lead: async (socket: string, ticket: string) => {
      const line = new Line();
      const params = { node: "n1", vmid: 300, socket: `${socket}.lead`, ticket };
      const { output } = await open(params, who.authid, line, new AbortController().signal);
      const answers = output[Symbol.asyncIterator]();
      return {
        say: async (text: string): Promise<string> => {
          line.push(text);
          const { value } = (await answers.next()) as { value?: Uint8Array };
          return Buffer.from(value ?? []).toString();
        },
        hangUp: async () => {
          line.end();
          await answers.next();
        },
      };
    },
    close: async () => {
      await engine.stop();
      world.remove();
    },
  };
}

class Line {
  readonly #chunks: string[] = [];
  #wake = (): void => undefined;
  #isOver = false;

  push(text: string): void {
    this.#chunks.push(text);
    this.#wake();
  }

  end(): void {
    this.#isOver = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      const next = this.#chunks.shift();
      if (next !== undefined) yield Buffer.from(next);
      else if (this.#isOver) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

const start = (more: object = {}) =>
  `${JSON.stringify({ start: { isPaused: false, disks: ["scsi0"], machine: "pc-i440fx-7.2", ...more } })}\n`;
const commit = '{"commit":true}\n';

it("takes its disks and RAM only by that line, and from who it was offered to", async () => {
  const { offer, lead, open, guest, engine, joined, world, destroyed, close } = await target();
  const { upid, socket, ticket } = await offer();
  const signal = new AbortController().signal;
  const other = (more: object, authid = who.authid) =>
    open({ node: "n1", vmid: 300, socket: `${socket}.ram`, ticket, ...more }, authid, new Line(), signal);
  await expect(other({ ticket: "x" })).rejects.toThrow("was offered to");
  await expect(other({ socket: `${socket}.qmp` })).rejects.toThrow("was offered to");
  await expect(other({}, "joe@pve")).rejects.toThrow("was offered to");
  await expect(other({})).rejects.toThrow("no QEMU waits");
  const { say } = await lead(socket, ticket);
  expect(await say("{}\n")).toContain("what it does not know");
  expect(await say(start({ disks: ["scsi7"] }))).toContain("has no scsi7 here");
  expect(await say(start({ vmgenid: "0" }))).toBe('{"ok":true}\n');
  expect(world.values(300)["vmgenid"]).toBe("0");
  const said = (): string[] => guest()?.qmp.commands.map(({ name }) => name) ?? [];
  expect(said()).toEqual(expect.arrayContaining(["block-export-add", "migrate-incoming"]));
  expect(said()).not.toContain("cont");
  const line = new Line();
  const ram = await open(
    { node: "n1", vmid: 300, socket: `${socket}.ram`, ticket },
    who.authid,
    line,
    signal,
  );
  line.push("pages");
  for await (const chunk of ram.output) {
    expect(Buffer.from(chunk).toString()).toBe("pong");
    break;
  }
  await vi.waitFor(() => expect(joined).toEqual(["ram pages"]), { timeout: 30_000 });
  expect(await say(commit)).toBe('{"ok":true}\n');
  expect((await engine.wait(upid)).exitStatus).toBe("OK");
  expect(said()).toContain("cont");
  expect(destroyed).toEqual([]);
  await expect(other({})).rejects.toThrow("was offered to");
  await close();
});

it("leaves nothing when the other side hangs up before it has said the last word", async () => {
  const { offer, lead, guest, engine, destroyed, close } = await target();
  const { upid, socket, ticket } = await offer();
  const { say, hangUp } = await lead(socket, ticket);
  await say(start());
  const process = guest();
  await hangUp();
  expect((await engine.wait(upid)).exitStatus).toContain("the other cluster hung up");
  expect(process?.hasExited).toBe(true);
  await vi.waitFor(() => expect(destroyed).toEqual([300]), { timeout: 30_000 });
  await close();
});

it("is this cluster's from the last word on, also where it does not go on by itself", async () => {
  const { offer, lead, guest, engine, destroyed, close } = await target();
  const { upid, socket, ticket } = await offer();
  const { say, hangUp } = await lead(socket, ticket);
  await say(start());
  guest()?.qmp.answers.set("cont", () => {
    throw new Error("no");
  });
  expect(await say(commit)).toBe('{"ok":true}\n');
  await hangUp();
  expect((await engine.wait(upid)).exitStatus).toBe("WARNINGS: 1");
  expect([guest()?.hasExited, destroyed]).toEqual([false, []]);
  await close();
});

it("is offered to who may use the storages and bridges that are meant", async () => {
  const { receiver, close } = await target();
  const asked: string[] = [];
  const access = {
    ...contextOf(undefined).access,
    require: (path: string) => {
      asked.push(path);
      if (path.endsWith("vmbr9")) throw new Error("Permission check failed");
    },
  };
  const params = { node: "n1", vmid: 300, storages: "a,b", bridges: "vmbr9" };
  const offered = Promise.resolve(receiver.routes()[OFFER](params, { ...contextOf(undefined), access }));
  await expect(offered).rejects.toThrow("Permission check failed");
  expect(asked).toEqual(["/storage/a", "/storage/b", "/sdn/zones/localnetwork/vmbr9"]);
  await close();
});

it("is led by one, for a VM that is off", async () => {
  const { offer, lead, engine, world, close } = await target();
  const { upid, socket, ticket } = await offer();
  const { say } = await lead(socket, ticket);
  await say(start());
  const second = await lead(socket, ticket);
  await expect(second.say(start())).rejects.toThrow("led by somebody else");
  await expect(offer()).rejects.toThrow("runs here");
  expect(await say(`${"x".repeat(70_000)}`).catch(String)).toContain("without end");
  expect((await engine.wait(upid)).exitStatus).not.toBe("OK");
  expect(world.configs.has(300)).toBe(true);
  await close();
});

it("comes in no other VM's place than one that was just made: that would be deleted where the move fails", async () => {
  const { offer, destroyed } = await target(3_600);
  await expect(offer()).rejects.toThrow("VM 300 was not made for a move");
  expect(destroyed).toEqual([]);
});
