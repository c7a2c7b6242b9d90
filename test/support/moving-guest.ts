// A guest that is moved while it works: it counts over one TCP connection and writes numbers on a disk, each where it
// belongs. Whoever moves it sees what its users saw.
import { closeSync, copyFileSync, existsSync, mkdirSync, openSync, readdirSync, readSync } from "node:fs";
import { join } from "node:path";
import { expect, vi } from "vitest";
import { Counter, countScript } from "./counter.ts";
import { runByAgent, untilAgentAnswers } from "./guest.ts";
import { apiOf } from "./gpve.ts";
import { tinyImage } from "./images.ts";
import type { TestLab } from "./lab.ts";
import { taskLog, waitTask } from "./tasks.ts";

const BLOCK = 512;

export interface Move {
  readonly target: string;
  readonly gapMs: number;
  readonly totalMs: number;
  readonly log: string;
}

export class MovingGuest {
  readonly lab: TestLab;
  readonly vmid: number;
  node: string;
  #counter: Counter | undefined;

  private constructor(lab: TestLab, vmid: number, node: string) {
    this.lab = lab;
    this.vmid = vmid;
    this.node = node;
  }

  get path(): string {
    return `/nodes/${this.node}/qemu/${this.vmid}`;
  }

  /** A guest that is there and works. */
  static async start(lab: TestLab, vmid: number, node: string, storage: string): Promise<MovingGuest> {
    const guest = await MovingGuest.make(lab, vmid, node, storage, {
      scsi1: writtenDisk(storage),
      start: 1,
    });
    await guest.#work();
    return guest;
  }

  /** A guest that is there; `more` is what it has besides. */
  static async make(
    lab: TestLab,
    vmid: number,
    node: string,
    storage: string,
    more: Readonly<Record<string, string | number>> = {},
  ): Promise<MovingGuest> {
    const image = join(lab.data, "shared/import/tiny.qcow2");
    mkdirSync(join(lab.data, "shared/import"), { recursive: true });
    if (!existsSync(image)) copyFileSync(await tinyImage(), image);
    const wanted = {
      vmid,
      name: `moving-${vmid}`,
      memory: 128,
      agent: 1,
      scsihw: "virtio-scsi-single",
      scsi0: `${storage}:0,import-from=shared:import/tiny.qcow2`,
      ide2: `${storage}:cloudinit`,
      ipconfig0: "ip=dhcp",
      net0: "virtio,bridge=vmbr0",
      boot: "order=scsi0",
      tags: "moving",
      ...more,
    };
    // A node that has just come up is known before it knows all servers.
    const made = await vi.waitFor(
      async () => {
        const answer = await lab.api()("POST", `/nodes/${node}/qemu`, wanted);
        expect(answer.status, answer.text).toBe(200);
        return answer;
      },
      { timeout: 150_000, interval: 500 },
    );
    expect((await waitTask(lab.api(), made.data as string, 120_000)).exitstatus).toBe("OK");
    return new MovingGuest(lab, vmid, node);
  }

  /** Starts it, and what it does. */
  async begin(): Promise<void> {
    await this.run("POST", "/status/start");
    await this.#work();
  }

  /** A task of it that must end well. */
  async run(method: string, path: string, params: Record<string, string | number> = {}): Promise<string> {
    const asked = await this.lab.api()(method, `${this.path}${path}`, params);
    expect(asked.status, asked.text).toBe(200);
    const upid = asked.data as string;
    const { exitstatus } = await waitTask(this.lab.api(), upid, 180_000);
    const log = await taskLog(this.lab.api(), upid);
    expect(exitstatus, log).toMatch(/^(?:OK|WARNINGS: \d+)$/);
    return log;
  }

  async #work(): Promise<void> {
    this.#counter?.close();
    // Controllers are found in any order; the disk to write on is the small one.
    const find = "for d in sda sdb; do test $(cat /sys/block/$d/size) -lt 200000 && disk=/dev/$d; done";
    const write = `${find}; i=0; while usleep 20000; do i=$((i+1)); printf "%0${BLOCK}d" $i | dd of=$disk bs=${BLOCK} seek=$i conv=notrunc,fsync 2>/dev/null || echo failed at $i >> /tmp/failed; echo $i > /tmp/written; done`;
    const script = [
      `echo '${write}' > /tmp/write.sh`,
      countScript,
      "setsid sh /tmp/write.sh </dev/null >/dev/null 2>&1 &",
    ].join("\n");
    await untilAgentAnswers(this.lab.api(), this.path);
    await runByAgent(this.lab.api(), this.path, "sh", "-c", script);
    this.#counter = await Counter.connect(await this.address());
  }

  /** Changes so much of its memory again and again, as quickly as it can. */
  async beBusy(mebibytes: number): Promise<void> {
    const change = "while cat /run/a > /run/b; do :; done";
    const script = `dd if=/dev/urandom of=/run/a bs=1M count=${mebibytes} 2>/dev/null; setsid sh -c '${change}' </dev/null >/dev/null 2>&1 & echo $! > /run/busy`;
    await runByAgent(this.lab.api(), this.path, "sh", "-c", script);
  }

  /** Of what it keeps in memory while it is busy. */
  async memorySum(): Promise<string> {
    return (await runByAgent(this.lab.api(), this.path, "md5sum", "/run/a")).trim();
  }

  async beIdle(): Promise<void> {
    await runByAgent(this.lab.api(), this.path, "sh", "-c", "kill $(cat /run/busy); rm /run/b");
  }

  async address(): Promise<string> {
    return vi.waitFor(
      async () => {
        const api = apiOf(this.lab.credentials(), undefined, "/api/v1");
        const { text } = await api("GET", `/virtualmachines/${this.vmid}`);
        const { status } = JSON.parse(text) as { status: { addresses?: readonly string[] } };
        expect(status.addresses?.[0]).toMatch(/^10\.37\./);
        return status.addresses?.[0] ?? "";
      },
      { timeout: 180_000, interval: 250 },
    );
  }

  /** Moves it and waits until its users hear of it again. */
  async move(target: string, more: Record<string, string | number> = {}): Promise<Move> {
    const begun = performance.now();
    const counter = this.counter;
    counter.longest = 0;
    const log = await this.run("POST", "/migrate", { target, online: 1, ...more });
    const totalMs = performance.now() - begun;
    this.node = target;
    await counter.goesOn();
    return { target, gapMs: counter.longest, totalMs, log };
  }

  /** Asks for a move; the task. */
  async askToMove(target: string, more: Record<string, string | number> = {}): Promise<string> {
    const asked = await this.lab.api()("POST", `${this.path}/migrate`, { target, online: 1, ...more });
    expect(asked.status, asked.text).toBe(200);
    return asked.data as string;
  }

  /** Moves it while it is off. */
  async moveOff(target: string): Promise<void> {
    await this.run("POST", "/migrate", { target });
    this.node = target;
  }

  /** Others have moved it. */
  async follow(): Promise<void> {
    const { data } = await this.lab.api()("GET", "/cluster/resources", { type: "vm" });
    const rows = data as readonly { readonly vmid: number; readonly node: string }[];
    this.node = rows.find(({ vmid }) => vmid === this.vmid)?.node ?? "";
  }

  /** Where a disk of it is, as its configuration says. */
  async fileOf(key: string): Promise<string> {
    const { data } = await this.lab.api()("GET", `${this.path}/config`);
    const [storage = "", name = ""] = String((data as Record<string, unknown>)[key])
      .replace(/,.*$/, "")
      .split(":");
    const folder = storage === "shared" ? "shared" : `nodes/${this.node}/storage/${storage}`;
    return join(this.lab.data, folder, "images", name);
  }

  /** What a node has of it on its own storage. */
  imagesAt(node: string): string[] {
    const folder = join(this.lab.data, `nodes/${node}/storage/local/images/${this.vmid}`);
    return existsSync(folder) ? readdirSync(folder).toSorted() : [];
  }

  get counter(): Counter {
    if (this.#counter === undefined) throw new Error("nobody listens to the guest");
    return this.#counter;
  }

  /** Numbers that are on the disk, in order; the guest must be stopped. */
  static numbersOn(file: string): number[] {
    const image = openSync(file, "r");
    const block = Buffer.alloc(BLOCK);
    const found: number[] = [];
    try {
      for (let at = 1; readSync(image, block, 0, BLOCK, at * BLOCK) === BLOCK; at++) {
        if (block[0] === 0) break;
        found.push(Number(block.toString("latin1")));
      }
    } finally {
      closeSync(image);
    }
    return found;
  }

  /** What the guest has written, as it says itself. */
  async written(): Promise<number> {
    const said = await runByAgent(
      this.lab.api(),
      this.path,
      "sh",
      "-c",
      "cat /tmp/failed 2>/dev/null; cat /tmp/written",
    );
    expect(said.trim()).toMatch(/^\d+$/);
    return Number(said);
  }

  close(): void {
    this.#counter?.close();
  }
}

/** The disk that it writes numbers on: raw, so that they can be read off. */
export function writtenDisk(storage: string): string {
  return `${storage}:0.05,format=raw`;
}
