// The same guest without gpve: two QEMUs of one command line, and a few words to their monitors. What goes from one to the
// other is encrypted by them as ours is.
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GuestAgentClient } from "@gpve/agent/infrastructure/guest-agent/guest-agent-client.ts";
import { encryptRam } from "@gpve/agent/application/qemu/migrate/encrypted-ram.ts";
import { sendRam } from "@gpve/agent/application/qemu/migrate/send-ram.ts";
import { SentInVain } from "@gpve/agent/application/qemu/migrate/sent-in-vain.ts";
import { FolderMoveKeys } from "@gpve/agent/infrastructure/move/move-keys.ts";
import { QmpClient } from "@gpve/agent/infrastructure/qmp/qmp-client.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import { type Child, startChild } from "@gpve/kit/testing/child.ts";
import { Counter, countScript } from "../../test/support/counter.ts";
import { until, writeScript, type Measured, type Size } from "./our-guest.ts";
import { joinShare } from "./same-share.ts";

const QEMU = "/usr/bin/qemu-system-x86_64";
const MAC = "BC:24:11:00:BA:4E";
/** As long as ours allows it to stand still, where nobody says otherwise. */
const DOWNTIME_MS = 100;
/** Of its whole time, as little as may be is spent waiting for the next look. */
const LOOK_MS = 10;

const MOST_TRIES = 3;
const quiet = { signal: new AbortController().signal, log: () => undefined, progress: () => undefined };
const askDhcp = "for d in /sys/class/net/*; do [ ${d##*/} = lo ] || /sbin/dhcp ${d##*/}; done";

interface Qemu {
  readonly folder: string;
  readonly tap: string;
  readonly child: Child;
  readonly qmp: QmpClient;
  readonly leaveShare: () => void;
}

/** Of the guest of ours that it is to be like. */
interface Like {
  readonly argv: readonly string[];
  readonly share: string | undefined;
  readonly size: Size;
}

export class BareGuest {
  readonly #argv: readonly string[];
  readonly #share: string | undefined;
  readonly #bridge: string;
  readonly #disks: string;
  readonly #size: Size;
  #serial = 0;
  #now: Qemu | undefined;
  #counter: Counter | undefined;

  private constructor(like: Like, bridge: string, disks: string) {
    this.#argv = like.argv;
    this.#share = like.share;
    this.#size = like.size;
    this.#bridge = bridge;
    this.#disks = disks;
  }

  /** `image` and `seed`: its disk and its cloud-init drive, copied. */
  static async start(
    like: Like,
    from: { readonly image: string; readonly seed: string; readonly bridge: string },
  ): Promise<BareGuest> {
    const disks = mkdtempSync(join(tmpdir(), "gpve-bare-disks-"));
    await exec("qemu-img", ["convert", "-f", "qcow2", "-O", "qcow2", from.image, join(disks, "disk.qcow2")]);
    copyFileSync(from.seed, join(disks, "seed.qcow2"));
    const guest = new BareGuest(like, from.bridge, disks);
    try {
      await guest.#begin();
      return guest;
    } catch (err) {
      await guest.close();
      throw err;
    }
  }

  async #begin(): Promise<void> {
    const qemu = await this.#launch([]);
    this.#now = qemu;
    const agent = new GuestAgentClient({
      path: join(qemu.folder, "qga0"),
      label: "bare QEMU",
      syncTimeoutMs: 10_000,
    });
    try {
      const run = (script: string): Promise<unknown> =>
        agent.execute("guest-exec", { path: "/bin/sh", arg: ["-c", script] });
      // The drive names the card of the guest that it was made for.
      await until("the bare guest's agent answers", () => run(askDhcp));
      const address = await until("the bare guest has an address", () => addressOf(agent));
      const { pid } = (await run(writeScript(this.#size))) as { readonly pid: number };
      await until("the bare guest has written", async () => {
        const told = await agent.execute("guest-exec-status", { pid });
        const { exited, exitcode } = told as { readonly exited: boolean; readonly exitcode?: number };
        if (!exited || exitcode !== 0) throw new Error(`exit code ${exitcode ?? "none"}`);
      });
      await run(countScript);
      this.#counter = await Counter.connect(address);
    } finally {
      agent.close();
    }
  }

  /**
   * With as much care as ours is moved with: an emulated guest is held whenever QEMU reads its log of changed pages. Without,
   * a change of its memory may be lost, and the guest with it.
   */
  async move(): Promise<Measured> {
    const [source, counter] = [this.#now, this.#counter];
    if (source === undefined || counter === undefined) throw new Error("the bare guest does not run");
    counter.longest = 0;
    const begun = performance.now();
    this.#now = await this.#moved(source);
    await end(source);
    const totalMs = performance.now() - begun;
    await counter.goesOn();
    return { gapMs: counter.longest, totalMs, gapEndedMs: counter.longestEndedAt - begun };
  }

  async #moved(source: Qemu): Promise<Qemu> {
    const accelerator = this.#argv.some((arg) => /\btcg\b/.test(arg)) ? "tcg" : "kvm";
    const process = asProcess(source, accelerator);
    let fullBytes: number | undefined;
    for (let patience = 1; ; patience++) {
      // A guest that is held when it is sent stands still there until it is told to go on.
      const target = await this.#launch(["-incoming", "defer"]);
      const socket = join(target.folder, "ram");
      const keys = new FolderMoveKeys(target.folder);
      const key = keys.newKey();
      await encryptRam(keys, process, key, "client");
      await encryptRam(keys, asProcess(target, accelerator), key, "server");
      await target.qmp.execute("migrate-incoming", { uri: `unix:${socket}` });
      try {
        const limits = { downtimeMs: DOWNTIME_MS, patience, fullBytes, isEncrypted: true };
        await sendRam(process, socket, limits, { ...quiet, clock: systemClock });
        await until("the bare guest goes on", () => goOn(target), LOOK_MS);
        return target;
      } catch (err) {
        await end(target);
        if (!(err instanceof SentInVain) || patience === MOST_TRIES) throw err;
        fullBytes = err.fullBytes;
        await source.qmp.execute("migrate_cancel");
        await until("the bare guest is not sent any more", () => ended(source), LOOK_MS);
        await source.qmp.execute("cont");
      }
    }
  }

  async close(): Promise<void> {
    this.#counter?.close();
    if (this.#now !== undefined) await end(this.#now);
    rmSync(this.#disks, { recursive: true, force: true });
  }

  async #launch(more: readonly string[]): Promise<Qemu> {
    const folder = mkdtempSync(join(tmpdir(), "gpve-bare-"));
    const serial = this.#serial++;
    const tap = `gpvebare${serial % 10}`;
    await exec("ip", ["tuntap", "add", tap, "mode", "tap"]);
    await exec("ip", ["link", "set", tap, "master", this.#bridge, "up"]);
    const child = startChild(QEMU, [...this.#own(folder, tap), ...more]);
    const leaveShare =
      this.#share === undefined ? () => undefined : joinShare(child.pid, this.#share, `bare-${serial}`);
    const label = `bare QEMU (${child.output()})`;
    const paths = { commandPath: join(folder, "qmp"), eventPath: join(folder, "qmp-event") };
    const open = (): Promise<QmpClient> => QmpClient.open({ ...paths, label });
    return { folder, tap, child, leaveShare, qmp: await until("bare QEMU answers", open, LOOK_MS) };
  }

  /** Its own sockets, card and disks; all else as it is. */
  #own(folder: string, tap: string): string[] {
    const isKept = (arg: string, at: number): boolean =>
      arg !== "-S" && arg !== "-incoming" && this.#argv[at - 1] !== "-incoming";
    return this.#argv.filter(isKept).map((arg) =>
      arg
        .replace(/^(socket,id=([\w-]+)),fd=\d+/, `$1,path=${folder}/$2`)
        .replace(/^tap,id=net0,fd=\d+/, `tap,id=net0,ifname=${tap},script=no,downscript=no`)
        .replace(/^unix:[^,]*\/vnc/, `unix:${folder}/vnc`)
        .replace(/mac=[0-9A-F:]{17}/, `mac=${MAC}`)
        .replaceAll(/[^"]*\/vm-\d+-disk-0\.qcow2/g, join(this.#disks, "disk.qcow2"))
        .replaceAll(/[^"]*\/vm-\d+-cloudinit\.qcow2/g, join(this.#disks, "seed.qcow2")),
    );
  }
}

/** As much of one as is asked for here. */
function asProcess({ qmp, child }: Qemu, accelerator: string): QemuProcess {
  const done = (): Promise<void> => Promise.resolve();
  const id = String(child.pid);
  const rest = { hasExited: false, note: { accelerator }, allowFile: done, forbidFile: done };
  return { id, qmp, ...rest } as unknown as QemuProcess;
}

async function goOn({ qmp }: Qemu): Promise<void> {
  await qmp.execute("cont");
  const { status } = await qmp.execute("query-status");
  if (status !== "running") throw new Error(status);
}

async function ended({ qmp }: Qemu): Promise<void> {
  const { status } = await qmp.execute("query-migrate");
  if (status !== "cancelled" && status !== "failed") throw new Error(status);
}

async function end({ child, qmp, tap, folder, leaveShare }: Qemu): Promise<void> {
  qmp.close();
  await child.stop();
  leaveShare();
  await exec("ip", ["link", "del", tap]);
  rmSync(folder, { recursive: true, force: true });
}

async function addressOf(agent: GuestAgentClient): Promise<string> {
  const cards = (await agent.execute("guest-network-get-interfaces")) as readonly {
    readonly "ip-addresses"?: readonly { readonly "ip-address": string }[];
  }[];
  const found = cards
    .flatMap((card) => card["ip-addresses"] ?? [])
    .map((each) => each["ip-address"])
    .find((address) => address.startsWith("10."));
  if (found === undefined) throw new Error("it has none");
  return found;
}
