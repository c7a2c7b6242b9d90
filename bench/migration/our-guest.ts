// A guest in a lab of three nodes that counts, moved by gpve.
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Counter, countScript } from "../../test/support/counter.ts";
import { apiOf } from "../../test/support/gpve.ts";
import { tinyImage } from "../../test/support/images.ts";
import type { TestLab } from "../../test/support/lab.ts";
import { taskLog, waitTask } from "../../test/support/tasks.ts";
import { shareOf } from "./same-share.ts";
import { WatchedTasks } from "./watched-tasks.ts";

export interface Measured {
  /** What a client of the guest waits for the next number. */
  readonly gapMs: number;
  readonly totalMs: number;
  /** When the gap was over, since the move was asked for. */
  readonly gapEndedMs: number;
}

/** What is measured with. */
export interface Size {
  readonly vmid: number;
  readonly memoryMiB: number;
  /** How much of it the guest has written to; 0 = what a tiny system has. */
  readonly writtenMiB: number;
}

const RING = ["n1", "n2", "n3"];
const PATIENCE_MS = 600_000;

export class OurGuest {
  readonly #lab: TestLab;
  readonly #size: Size;
  readonly #tasks: WatchedTasks;
  #node = "n1";
  #counter: Counter | undefined;

  private constructor(lab: TestLab, size: Size) {
    this.#lab = lab;
    this.#size = size;
    this.#tasks = new WatchedTasks(lab.credentials());
  }

  get #path(): string {
    return `/nodes/${this.#node}/qemu/${this.#size.vmid}`;
  }

  static async start(lab: TestLab, size: Size): Promise<OurGuest> {
    const guest = new OurGuest(lab, size);
    mkdirSync(join(lab.data, "shared/import"), { recursive: true });
    copyFileSync(await tinyImage(), join(lab.data, "shared/import/tiny.qcow2"));
    await until("a guest is made", () =>
      guest.#run("POST", "/nodes/n1/qemu", {
        vmid: size.vmid,
        memory: size.memoryMiB,
        agent: 1,
        scsihw: "virtio-scsi-single",
        scsi0: "shared:0,import-from=shared:import/tiny.qcow2",
        ide2: "shared:cloudinit",
        ipconfig0: "ip=dhcp",
        net0: "virtio,bridge=vmbr0",
        boot: "order=scsi0",
        start: 1,
      }),
    );
    const begun = await until("the guest's agent writes", () => guest.#exec(writeScript(size)));
    await until("the guest has written", () => guest.#ended(begun));
    await until("the guest's agent counts", () => guest.#exec(countScript));
    guest.#counter = await Counter.connect(await guest.#address());
    return guest;
  }

  /** The very command line of its QEMU, and the cgroup that it has its processor time from. */
  async process(): Promise<{ readonly argv: readonly string[]; readonly share: string | undefined }> {
    const { data } = await this.#lab.api()("GET", `${this.#path}/status/current`);
    const { pid } = data as { readonly pid: number };
    const argv = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(1, -1);
    return { argv, share: shareOf(pid) };
  }

  async move(): Promise<Measured & { readonly log: string }> {
    const target = RING[(RING.indexOf(this.#node) + 1) % RING.length] ?? "";
    const counter = this.#listened();
    counter.longest = 0;
    const begun = performance.now();
    const { upid, exitStatus } = await this.#tasks.run(`${this.#path}/migrate`, { target, online: 1 });
    const totalMs = performance.now() - begun;
    if (exitStatus !== "OK") throw new Error(`${upid}: ${await taskLog(this.#lab.api(), upid)}`);
    this.#node = target;
    await counter.goesOn();
    const gapEndedMs = counter.longestEndedAt - begun;
    return { gapMs: counter.longest, totalMs, gapEndedMs, log: await taskLog(this.#lab.api(), upid) };
  }

  async close(): Promise<void> {
    this.#counter?.close();
    this.#tasks.close();
    await this.#run("POST", `${this.#path}/status/stop`, {});
  }

  /** Its number there. */
  async #exec(script: string): Promise<number> {
    const words = ["sh", "-c", script].map((word): [string, string] => ["command", word]);
    const body = new URLSearchParams(words).toString();
    const asked = await this.#lab.api()("POST", `${this.#path}/agent/exec`, {}, {}, body);
    if (asked.status !== 200) throw new Error(asked.text);
    return (asked.data as { readonly pid: number }).pid;
  }

  async #ended(pid: number): Promise<void> {
    const { data, text } = await this.#lab.api()("GET", `${this.#path}/agent/exec-status`, { pid });
    const { exited, exitcode } = data as { readonly exited?: number; readonly exitcode?: number };
    if (exited !== 1 || exitcode !== 0) throw new Error(text);
  }

  #listened(): Counter {
    if (this.#counter === undefined) throw new Error("nobody listens to the guest");
    return this.#counter;
  }

  async #run(method: string, path: string, params: Record<string, string | number>): Promise<string> {
    const asked = await this.#lab.api()(method, path, params);
    if (asked.status !== 200) throw new Error(`${method} ${path}: ${asked.status} ${asked.text}`);
    const upid = asked.data as string;
    const { exitstatus } = await waitTask(this.#lab.api(), upid, PATIENCE_MS);
    if (exitstatus !== "OK") throw new Error(`${upid}: ${await taskLog(this.#lab.api(), upid)}`);
    return upid;
  }

  async #address(): Promise<string> {
    return until("the guest has an address", async () => {
      const api = apiOf(this.#lab.credentials(), undefined, "/api/v1");
      const { text } = await api("GET", `/virtualmachines/${this.#size.vmid}`);
      const { status } = JSON.parse(text) as { status: { addresses?: readonly string[] } };
      const [address] = status.addresses ?? [];
      if (address === undefined) throw new Error(text);
      return address;
    });
  }
}

/** Pages that are not empty, for a shell in the guest. */
export function writeScript({ writtenMiB }: Size): string {
  if (writtenMiB === 0) return "true";
  const folder = "/tmp/written";
  const mount = `mkdir ${folder} && mount -t tmpfs -o size=${writtenMiB + 16}m none ${folder} && cd ${folder}`;
  const one = "yes 0123456789abcdef | head -c 1048576 > one";
  const all = `i=0; while [ $i -lt ${writtenMiB} ]; do cat one || exit 1; i=$((i+1)); done > all`;
  return `${mount} && ${one} && ${all}`;
}

export async function until<T>(what: string, attempt: () => Promise<T>, everyMs = 250): Promise<T> {
  for (const end = performance.now() + PATIENCE_MS; ;) {
    try {
      return await attempt();
    } catch (cause) {
      if (performance.now() > end) throw new Error(`waited in vain until ${what}`, { cause });
      await sleep(everyMs);
    }
  }
}
