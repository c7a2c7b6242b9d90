// A gpve that is killed on purpose, started again, and looked over: nothing may be lost, left over or locked.
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, vi } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import type { PointOfInterest } from "@gpve/kit/testing/kill-at.ts";
import { type Api, apiOf, firstNode, nodeBinary, readCredentials, root, untilPrinted } from "./gpve.ts";
import { endGuestsOf } from "./left-guests.ts";
import { taskLog, waitTask } from "./tasks.ts";

const childFile = resolve(root, "test/integration/fixtures/crashing-up-child.ts");

type Params = Readonly<Record<string, string | number>>;

export class CrashWorld {
  readonly data = mkdtempSync(join(tmpdir(), "gpve-crash-"));
  #child: Child | undefined;
  #api: Api | undefined;
  #node = "";

  async start(): Promise<void> {
    const child = startChild(nodeBinary, ["--disable-warning=ExperimentalWarning", childFile, this.data]);
    this.#child = child;
    await untilPrinted(child, "ready\n");
    this.#api = apiOf(readCredentials(this.data));
    this.#node = await firstNode(this.api);
  }

  get api(): Api {
    if (this.#api === undefined) throw new Error("the world is not started");
    return this.#api;
  }

  get node(): string {
    return this.#node;
  }

  vm(vmid: number): string {
    return `/nodes/${this.#node}/qemu/${vmid}`;
  }

  /** Runs a request that makes a task, and gives how the task ended. */
  async run(method: string, path: string, params?: Params): Promise<string> {
    const answer = await this.api(method, path, params);
    expect(answer.status, `${method} ${path}: ${answer.text}`).toBe(200);
    return (await waitTask(this.api, answer.data as string)).exitstatus ?? "";
  }

  async ok(method: string, path: string, params?: Params): Promise<void> {
    expect(await this.run(method, path, params), `${method} ${path}`).toBe("OK");
  }

  /** The points that operations of one type came to since the last call. */
  points(type: string): PointOfInterest[] {
    const file = join(this.data, "points");
    if (!existsSync(file)) return [];
    const points = readFileSync(file, "utf8")
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as PointOfInterest);
    rmSync(file);
    return points.filter((point) => point.type === type);
  }

  /** Sends the request; the process dies at the point, is started again and has recovered when this returns. */
  async killedAt(point: PointOfInterest, method: string, path: string, params?: Params): Promise<void> {
    writeFileSync(join(this.data, "crash.json"), JSON.stringify(point));
    const upid = await this.#sent(method, path, params);
    const died = this.#child?.exited ?? Promise.reject(new Error("nothing runs"));
    expect(await (upid === undefined ? died : Promise.race([died, this.#ended(upid)]))).toBe("SIGKILL");
    await this.#revive();
  }

  /** The same, killed some time after the request. */
  async killedAfter(ms: number, method: string, path: string, params?: Params): Promise<void> {
    const sent = this.#sent(method, path, params);
    await sleep(ms);
    this.#child?.signal("SIGKILL");
    await this.#child?.exited;
    await sent;
    await this.#revive();
  }

  /** What must be true after whatever happened. */
  async expectSound(): Promise<void> {
    const configs = new Map<number, string>();
    for (const { vmid } of (await this.api("GET", `/nodes/${this.#node}/qemu`)).data as { vmid: number }[]) {
      const current = (await this.api("GET", `${this.vm(vmid)}/config`)).data as Record<string, unknown>;
      expect(current, `VM ${vmid}`).not.toHaveProperty("lock");
      const texts = [JSON.stringify(current)];
      const snapshots = (await this.api("GET", `${this.vm(vmid)}/snapshot`)).data as { name: string }[];
      for (const { name } of snapshots.filter((each) => each.name !== "current")) {
        const answer = await this.api("GET", `${this.vm(vmid)}/snapshot/${name}/config`);
        expect(answer.data, `snapshot ${name} of ${vmid}`).not.toHaveProperty("snapstate");
        texts.push(answer.text);
      }
      configs.set(vmid, texts.join("\n"));
    }
    expect(this.images(), "volumes that no VM knows").toEqual(
      this.images().filter((name) => configs.get(Number(name.split("/")[0]))?.includes(name) === true),
    );
    const known = [...configs.values()].join("\n").matchAll(/local:(\d+\/[\w.-]+)/g);
    for (const [, name = ""] of known) expect(this.images(), "a disk is lost").toContain(name);
    const dump = join(this.data, "storage/local/dump");
    const left = existsSync(dump) ? readdirSync(dump) : [];
    expect(left.filter((name) => !/^vzdump-.*\.(vma\.zst|log|notes)$/.test(name))).toEqual([]);
    for (const name of left.filter((each) => each.endsWith(".zst")))
      await exec("zstd", ["-tq", join(dump, name)]);
    await vi.waitFor(() => expect(this.#helpers(), "processes left behind").toEqual([]), {
      timeout: 150_000,
      interval: 200,
    });
  }

  /** `100/vm-100-disk-0.qcow2` and so on, whatever a VM knows of it. */
  images(): string[] {
    const folder = join(this.data, "storage/local/images");
    if (!existsSync(folder)) return [];
    return readdirSync(folder).flatMap((id) => readdirSync(join(folder, id)).map((name) => `${id}/${name}`));
  }

  /** What a guest sees of a disk, as a hash. */
  async contentOf(vmid: number, disk: string): Promise<string> {
    const config = (await this.api("GET", `${this.vm(vmid)}/config`)).data as Record<string, string>;
    const name = /^local:([^,]+)/.exec(config[disk] ?? "")?.[1] ?? "";
    const copy = join(this.data, "content.raw");
    await exec("qemu-img", [
      "convert",
      "-U",
      "-O",
      "raw",
      join(this.data, "storage/local/images", name),
      copy,
    ]);
    return createHash("sha256").update(readFileSync(copy)).digest("hex");
  }

  async has(vmid: number): Promise<boolean> {
    return (await this.api("GET", `${this.vm(vmid)}/config`)).status === 200;
  }

  async status(vmid: number): Promise<{ qmpstatus: string; pid: number }> {
    return (await this.api("GET", `${this.vm(vmid)}/status/current`)).data as never;
  }

  async stop(): Promise<void> {
    this.#child?.signal("SIGTERM");
    await this.#child?.exited;
    endGuestsOf(this.data);
    rmSync(this.data, { recursive: true, force: true });
  }

  /** A request to a process that may die before it answers. */
  async #sent(method: string, path: string, params?: Params): Promise<string | undefined> {
    try {
      const answer = await this.api(method, path, params);
      expect(answer.status, answer.text).toBe(200);
      return answer.data;
    } catch (error) {
      if (!(error instanceof Error && "code" in error)) throw error;
      return undefined;
    }
  }

  /** How the task ended; never, when the process died before. */
  #ended(upid: string): Promise<string> {
    return waitTask(this.api, upid).then(
      ({ exitstatus }) => `the task ended: ${exitstatus}`,
      () => new Promise<never>(() => {}),
    );
  }

  async #revive(): Promise<void> {
    rmSync(join(this.data, "crash.json"), { force: true });
    await this.start();
    const end = performance.now() + 180_000;
    for (;;) {
      const active = (await this.api("GET", `/nodes/${this.#node}/tasks`, { source: "active" })).data;
      if ((active as unknown[]).length === 0) return;
      if (performance.now() > end) {
        const logs = (active as { upid: string }[]).map(({ upid }) => taskLog(this.api, upid));
        throw new Error(`still active a minute after the restart: ${(await Promise.all(logs)).join("\n")}`);
      }
      await sleep(50);
    }
  }

  /** Tools that work on our data, guests aside. */
  #helpers(): string[] {
    return readdirSync("/proc")
      .filter((pid) => /^\d+$/.test(pid))
      .flatMap((pid) => {
        try {
          const argv = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
          const isTool = /\/?(qemu-img|qemu-nbd|qemu-io|zstd|gzip|lzop)$/.test(argv[0] ?? "");
          return isTool && argv.some((arg) => arg.includes(this.data)) ? [`${pid} ${argv.join(" ")}`] : [];
        } catch {
          return []; // It ended while we looked.
        }
      });
  }
}
