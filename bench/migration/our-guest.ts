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

export interface Measured {
  /** What a client of the guest waits for the next number. */
  readonly gapMs: number;
  readonly totalMs: number;
  /** When the gap was over, since the move was asked for. */
  readonly gapEndedMs: number;
}

const VMID = 100;
const RING = ["n1", "n2", "n3"];
const PATIENCE_MS = 600_000;

export class OurGuest {
  readonly #lab: TestLab;
  #node = "n1";
  #counter: Counter | undefined;

  private constructor(lab: TestLab) {
    this.#lab = lab;
  }

  get #path(): string {
    return `/nodes/${this.#node}/qemu/${VMID}`;
  }

  static async start(lab: TestLab): Promise<OurGuest> {
    const guest = new OurGuest(lab);
    mkdirSync(join(lab.data, "shared/import"), { recursive: true });
    copyFileSync(await tinyImage(), join(lab.data, "shared/import/tiny.qcow2"));
    await until("a guest is made", () =>
      guest.#run("POST", "/nodes/n1/qemu", {
        vmid: VMID,
        memory: 128,
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
    await until("the guest's agent counts", async () => {
      const words = ["sh", "-c", countScript].map((word): [string, string] => ["command", word]);
      const body = new URLSearchParams(words).toString();
      const asked = await lab.api()("POST", `${guest.#path}/agent/exec`, {}, {}, body);
      if (asked.status !== 200) throw new Error(asked.text);
    });
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
    const upid = await this.#run("POST", `${this.#path}/migrate`, { target, online: 1 });
    const totalMs = performance.now() - begun;
    this.#node = target;
    await counter.goesOn();
    const gapEndedMs = counter.longestEndedAt - begun;
    return { gapMs: counter.longest, totalMs, gapEndedMs, log: await taskLog(this.#lab.api(), upid) };
  }

  close(): void {
    this.#counter?.close();
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
      const { text } = await api("GET", `/virtualmachines/${VMID}`);
      const { status } = JSON.parse(text) as { status: { addresses?: readonly string[] } };
      const [address] = status.addresses ?? [];
      if (address === undefined) throw new Error(text);
      return address;
    });
  }
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
