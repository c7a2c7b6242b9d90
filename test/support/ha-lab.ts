// A guest under HA in a lab of three nodes: faults, when it answers again, and a witness at its disk.
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { kill } from "node:process";
import { exec } from "@gpve/kit/exec.ts";
import { readFileTail } from "@gpve/kit/file-tail.ts";
import { expect, vi } from "vitest";
import { apiOf } from "./gpve.ts";
import { tinyImage } from "./images.ts";
import type { TestLab } from "./lab.ts";
import { taskLog, waitTask } from "./tasks.ts";

export const HA_VMID = 100;

/** Seconds, for people. */
export interface Loss {
  readonly fault: string;
  readonly node: string;
  readonly silentS: number;
  readonly answersS: number;
  /** When its program was started; the rest is the guest's own boot. */
  readonly startedS: number;
  readonly now: string;
}

export interface StatusRow {
  readonly type: string;
  readonly sid?: string;
  readonly node: string;
  readonly state?: string;
  readonly status: string;
}

export class HaLab {
  readonly #lab: TestLab;
  #address = "";

  constructor(lab: TestLab) {
    this.#lab = lab;
  }

  async makeGuest(node: string): Promise<void> {
    const { data } = this.#lab;
    mkdirSync(join(data, "shared/import"), { recursive: true });
    copyFileSync(await tinyImage(), join(data, "shared/import/tiny.qcow2"));
    const api = this.#lab.api();
    // A node is online before its agent has read the cluster's records.
    const made = await vi.waitFor(
      async () => {
        const answer = await api("POST", `/nodes/${node}/qemu`, {
          vmid: HA_VMID,
          name: "kept",
          memory: 128,
          scsihw: "virtio-scsi-pci",
          scsi0: "shared:0,import-from=shared:import/tiny.qcow2",
          ide2: "shared:cloudinit",
          ipconfig0: "ip=dhcp",
          net0: "virtio,bridge=vmbr0",
          boot: "order=scsi0",
        });
        expect(answer.status, answer.text).toBe(200);
        return answer;
      },
      { timeout: 180_000, interval: 1_000 },
    );
    expect((await waitTask(api, made.data as string, 120_000)).exitstatus).toBe("OK");
    const added = await api("POST", "/cluster/ha/resources", { sid: `vm:${HA_VMID}`, max_restart: 3 });
    expect(added.status, added.text).toBe(200);
    await this.#learnAddress();
    await this.#untilAnswers(120_000);
  }

  async status(): Promise<readonly StatusRow[]> {
    const { data } = await this.#lab.api()("GET", "/cluster/ha/status/current");
    return (data ?? []) as readonly StatusRow[];
  }

  /** Where the manager has it. */
  async place(): Promise<string> {
    return (await this.status()).find(({ type }) => type === "service")?.node ?? "";
  }

  /** What has been done with it, and how it ended. */
  async tasks(): Promise<readonly string[]> {
    const { data } = await this.#lab.api()("GET", "/cluster/tasks");
    return (
      data as readonly {
        readonly upid: string;
        readonly type: string;
        readonly id: string;
        readonly status?: string;
      }[]
    )
      .filter(({ id }) => id === String(HA_VMID))
      .map(({ upid, type, status }) => `${type} ${status ?? "runs"} ${upid}`);
  }

  /** Until all nodes are there and the guest runs: the manager does not carry out what is asked of a node out of sight. */
  async untilSettled(): Promise<void> {
    let looks = 0;
    await vi.waitFor(
      async () => {
        const rows = await this.status();
        const states = rows.flatMap(({ type, status }) => (type === "lrm" ? [status] : []));
        const isSettled =
          states.length === 3 &&
          states.every((status) => /\((?:idle|active)/.test(status)) &&
          rows.some(({ type, state }) => type === "service" && state === "started");
        looks = isSettled ? looks + 1 : 0;
        expect(looks, JSON.stringify(rows)).toBeGreaterThan(5);
      },
      { timeout: 120_000, interval: 1_000 },
    );
  }

  /** For whoever reads of a failure: what the manager has, and what the tasks since `before` said. */
  async account(before: readonly string[]): Promise<string> {
    const tasks = (await this.tasks()).filter((task) => !before.includes(task));
    const said = await Promise.all(
      tasks.map(async (task) => `${task}\n${await taskLog(this.#lab.api(), task.split(" ").at(-1) ?? "")}`),
    );
    const state = [JSON.stringify(await this.status()), `it answers: ${await this.answers()}`];
    return [...state, ...said, ...this.#fences()].join("\n");
  }

  /** The last words of each node's fence process. */
  #fences(): readonly string[] {
    return ["n1", "n2", "n3"].map((node) => {
      const file = join(this.#lab.data, "nodes", node, "log/fence.jsonl");
      return existsSync(file) ? `fence of ${node}:\n${readFileTail(file, 4_000)}` : `no fence of ${node}`;
    });
  }

  async answers(): Promise<boolean> {
    try {
      const answer = await fetch(`http://${this.#address}/`, { signal: AbortSignal.timeout(1_500) });
      return (await answer.text()).trim() === "kept";
    } catch {
      return false; // it does not
    }
  }

  /** Until the guest has been silent and answers again. */
  async lose(fault: string, node: string, strike: () => Promise<void>): Promise<Loss> {
    const before = performance.now();
    const wallBefore = Date.now();
    await strike();
    const since = (): number => (performance.now() - before) / 1000;
    await vi.waitFor(async () => expect(await this.answers()).toBe(false), {
      timeout: 180_000,
      interval: 100,
    });
    const silentS = since();
    await this.#untilAnswers(150_000);
    const answersS = since();
    const now = await this.place();
    const card = JSON.parse(
      readFileSync(join(this.#lab.data, "nodes", now, "run/guests", String(HA_VMID), "guest.json"), "utf8"),
    ) as { readonly startedAt: number };
    return { fault, node, silentS, answersS, startedS: (card.startedAt - wallBefore) / 1000, now };
  }

  async heal(node: string): Promise<void> {
    await this.#lab.fault("heal", node);
    await vi.waitFor(
      async () => {
        const rows = await this.status();
        const local = rows.find((row) => row.type === "lrm" && row.node === node);
        expect(local?.status).toMatch(/\((?:idle|active)/);
      },
      { timeout: 180_000, interval: 250 },
    );
  }

  kill(node: string, note: string): void {
    kill(this.pid(node, note), "SIGKILL");
  }

  /** `note`: a file of the node's that names a process. */
  pid(node: string, note: string): number {
    const text = readFileSync(join(this.#lab.data, "nodes", node, "run", note), "utf8");
    return (JSON.parse(text) as { readonly pid: number }).pid;
  }

  /** Its member of etcd neither hears nor is heard; everything else of the node is. */
  async cutEtcd(node: string): Promise<() => Promise<void>> {
    const own = (
      JSON.parse(readFileSync(join(this.#lab.data, "instance.json"), "utf8")) as { instanceId: string }
    ).instanceId;
    const inside = ["netns", "exec", `gpve-${own}-${node}`, "nft"];
    const drop = (side: string): string => `meta ${side}name != "lo" tcp PORTS { 2379, 2380 } drop`;
    const chain = (hook: string, side: string): string =>
      [
        `chain ${hook} {`,
        `type filter hook ${hook} priority 0`,
        ...["dport", "sport"].map((ports) => drop(side).replace("PORTS", ports)),
        "}",
      ].join("\n");
    const table = `table inet cutetcd {\n${chain("input", "iif")}\n${chain("output", "oif")}\n}\n`;
    await exec("ip", [...inside, "-f", "-"], { input: table });
    return async () => void (await exec("ip", [...inside, "delete", "table", "inet", "cutetcd"]));
  }

  async #learnAddress(): Promise<void> {
    await vi.waitFor(
      async () => {
        const object = await apiOf(
          this.#lab.credentials(),
          undefined,
          "/api/v1",
        )("GET", `/virtualmachines/${HA_VMID}`);
        const { status } = JSON.parse(object.text) as { status?: { addresses?: readonly string[] } };
        this.#address = status?.addresses?.[0] ?? "";
        expect(this.#address).toMatch(/^10\./);
      },
      { timeout: 120_000, interval: 500 },
    );
  }

  async #untilAnswers(timeout: number): Promise<void> {
    await vi.waitFor(async () => expect(await this.answers()).toBe(true), { timeout, interval: 200 });
  }
}

/** Looks all the time which processes have an image open for writing, and of how many nodes they were at most. */
export class DiskWitness {
  readonly #folder: string;
  readonly #timer: NodeJS.Timeout;
  most = 0;
  looks = 0;

  /** `folder`: of the images; those whose names say disk are watched. */
  constructor(folder: string) {
    this.#folder = folder;
    this.#timer = setInterval(() => this.#look(), 50);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const images = this.#images();
    if (images.size === 0) return;
    const groups = new Set<string>();
    for (const pid of readdirSync("/proc")) if (/^\d+$/.test(pid)) groups.add(writer(pid, images));
    groups.delete("");
    this.looks++;
    this.most = Math.max(this.most, groups.size);
  }

  /** By what tells files apart, since each guest has paths of its own. */
  #images(): ReadonlySet<string> {
    if (!existsSync(this.#folder)) return new Set();
    const names = readdirSync(this.#folder).filter((name) => name.includes("-disk-"));
    return new Set(names.map((name) => markOf(join(this.#folder, name))));
  }
}

/** The mark of the node whose process has one of them open for writing; "" = it has not. */
function writer(pid: string, images: ReadonlySet<string>): string {
  try {
    if (!readFileSync(`/proc/${pid}/comm`, "utf8").startsWith("qemu")) return "";
    const holds = readdirSync(`/proc/${pid}/fd`).some((fd) => {
      if (!images.has(markOf(`/proc/${pid}/fd/${fd}`))) return false;
      const flags = /flags:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/fdinfo/${fd}`, "utf8"))?.[1] ?? "0";
      return (Number.parseInt(flags, 8) & 3) !== 0;
    });
    if (!holds) return "";
    return /\/(gpve-[0-9a-f]{6})\//.exec(readFileSync(`/proc/${pid}/cgroup`, "utf8"))?.[1] ?? pid;
  } catch {
    return ""; // it has just ended
  }
}

function markOf(path: string): string {
  const { dev, ino } = statSync(path);
  return `${dev}:${ino}`;
}
