import { beforeEach, describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import type { LineTarget } from "@gpve/domain/guest/guest-lines.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { FakeVmNetwork } from "../../../testing/fake-vm-network.ts";
import { madeUpVmHost } from "../../../testing/made-up-vm.ts";
import { GuestLines, IDLE_MS, MOST_PER_GUEST, MOST_PER_USER } from "./guest-lines.ts";

class FakeLine implements ConsoleSocket {
  readonly written: string[] = [];
  readonly #end = Promise.withResolvers<void>();
  readonly closed = this.#end.promise;
  readonly output = this.#read();
  isClosed = false;

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

let clock: FakeClock;
let network: FakeVmNetwork;
let dialled: LineTarget[];
let lines: FakeLine[];
let refusal: AppError | undefined;
let guests: GuestLines;
let exits: Record<number, PromiseWithResolvers<never>>;

beforeEach(() => {
  clock = new FakeClock(0);
  network = new FakeVmNetwork();
  [dialled, lines, refusal, exits] = [[], [], undefined, {}];
  const running = (vmid: number) => {
    const exit = Promise.withResolvers<never>();
    exits[vmid] = exit;
    return { id: String(vmid), hasExited: false, exited: exit.promise };
  };
  const many = Object.fromEntries(
    Array.from({ length: 8 }, (_, at) => [200 + at, { values: {}, process: running(200 + at) }]),
  );
  const values = {
    net0: "virtio=BC:24:11:00:00:01,bridge=vmbr0",
    net1: "virtio=BC:24:11:00:00:02,bridge=vmbr1,tag=7",
    net2: "virtio=BC:24:11:00:00:03",
  };
  const host = madeUpVmHost(
    { 100: { values, process: running(100) }, 101: { values }, ...many },
    { clock, network },
  );
  guests = new GuestLines({
    host,
    clock,
    dialer: {
      dial: (target) => {
        dialled.push(target);
        if (refusal !== undefined) return Promise.reject(refusal);
        const socket = new FakeLine();
        lines.push(socket);
        return Promise.resolve({ address: target.address ?? "10.0.0.7", socket });
      },
    },
  });
});

const signal = new AbortController().signal;
async function* silence(): AsyncGenerator<Uint8Array> {
  await new Promise(() => undefined);
  yield new Uint8Array();
}
async function* saying(...words: string[]): AsyncGenerator<Uint8Array> {
  for (const word of words) yield Buffer.from(word);
  await new Promise(() => undefined);
}
const open = (more: { vmid?: number; authid?: string; signal?: AbortSignal } = {}, input = silence()) =>
  guests
    .tunnels()
    ["TUNNEL /gpve/nodes/{node}/vms/{vmid}/port"](
      { node: "n1", vmid: more.vmid ?? 100, port: 50_000 },
      more.authid ?? "joe@pve",
      input,
      more.signal ?? signal,
    );

describe("a line to a VM's port", () => {
  test("goes to cards on bridges, and carries bytes", async () => {
    const { opened, output } = await open({}, saying("a", "b"));
    expect(opened).toEqual({ kind: "port", address: "10.0.0.7" });
    expect(dialled).toEqual([
      {
        label: "VM 100",
        port: 50_000,
        cards: [
          { key: "net0", mac: "BC:24:11:00:00:01", tap: "tap100i0" },
          { key: "net1", mac: "BC:24:11:00:00:02", tap: "tap100i1", tag: 7 },
        ],
      },
    ]);
    for await (const chunk of output) {
      expect(Buffer.from(chunk).toString()).toBe("hello");
      break;
    }
    await expect.poll(() => lines[0]?.written).toEqual(["a", "b"]);
    guests.close();
    expect(lines[0]?.isClosed).toBe(true);
  });

  test("wants a VM that runs, on a node that has bridges", async () => {
    await expect(open({ vmid: 101 })).rejects.toMatchObject({
      code: "object.conflict",
      message: "cannot open a line to port 50000 of VM 101: it does not run; start it first",
    });
    await expect(open({ vmid: 999 })).rejects.toMatchObject({ code: "object.not_found" });
    network.tapsMissing = "taps need root";
    await expect(open()).rejects.toMatchObject({
      code: "feature.unsupported",
      message: expect.stringContaining("user-mode networks here (taps need root)"),
    });
    expect(dialled).toEqual([]);
  });

  test("ends with the VM, with whoever asked and when he says no more", async () => {
    await open();
    exits[100]?.resolve(undefined as never);
    await expect.poll(() => lines[0]?.isClosed).toBe(true);
    const abort = new AbortController();
    await open({ vmid: 200, signal: abort.signal });
    abort.abort();
    expect(lines[1]?.isClosed).toBe(true);
    await open({ vmid: 200, signal: abort.signal });
    expect(lines[2]?.isClosed).toBe(true);
    await open({ vmid: 200 }, (async function* () {})());
    await expect.poll(() => lines[3]?.isClosed).toBe(true);
  });

  test("ends when nobody says anything for long", async () => {
    const more = Promise.withResolvers<void>();
    const input = async function* () {
      await more.promise;
      yield Buffer.from("still here");
      await new Promise(() => undefined);
    };
    await open({}, input());
    await clock.advance(IDLE_MS - 1_000);
    more.resolve();
    await expect.poll(() => lines[0]?.written).toEqual(["still here"]);
    await clock.advance(2_000);
    expect(lines[0]?.isClosed).toBe(false);
    await clock.advance(IDLE_MS);
    expect(lines[0]?.isClosed).toBe(true);
  });

  test("is one of few to a VM and of a user, whose tokens are his; one that ends or fails makes room", async () => {
    for (let count = 0; count < MOST_PER_GUEST; count++) await open({ authid: `joe@pve!t${count}` });
    await expect(open({ authid: "ann@pve" })).rejects.toThrow("the most a VM may have");
    lines[0]?.close();
    await expect.poll(() => open({ authid: "ann@pve" }).then(() => "open")).toBe("open");
    refusal = new AppError("access.denied", "not seen there");
    for (let count = 0; count < MOST_PER_USER; count++)
      await expect(open({ vmid: 201 })).rejects.toThrow("not seen there");
    refusal = undefined;
    for (let count = MOST_PER_GUEST - 1; count < MOST_PER_USER; count++)
      await open({ vmid: 201 + (count % 7), authid: "joe@pve" });
    await expect(open({ vmid: 207 })).rejects.toThrow("joe@pve has 128 lines on this node");
  });
});
