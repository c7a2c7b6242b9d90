// Workers of level L3: each is a machine of its own, a QEMU under a uid of its own, with a card on its cluster's bridge.
//
//   …/vnodes/<name>/etc/      settings and keys, as every worker has them
//   …/own.raw                 what the worker keeps: images, containers, persistent volumes
//   …/asked/                  how many bytes each of these was asked for
//   …/settings.raw            etc/ as the machine reads it
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { open, rename, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { IMAGES } from "@gpve/domain/vcluster/vnode/images.ts";
import {
  MACHINE_DISK_BYTES,
  MACHINE_LINE,
  MACHINE_TAP_FD,
  machineArguments,
  machineBounds,
  machineFacts,
  machineFiles,
  machinePlace,
  SETTINGS_DISK_BYTES,
} from "@gpve/domain/vcluster/vnode/machine.ts";
import { type NodeNameServers, resolvConf } from "@gpve/domain/vcluster/vnode/name-servers.ts";
import type { VnodePod, VnodeUsage } from "@gpve/domain/vcluster/vnode/ports.ts";
import { type KeptVnode, podNetwork, type VnodePart } from "@gpve/domain/vcluster/vnode/vnode.ts";
import {
  containerdConfig,
  kubeletConfig,
  kubeProxyConfig,
  podNetworkConfig,
  workerRules,
} from "@gpve/domain/vcluster/vnode/vnode-files.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { sumUsage } from "../../guest-process/sum-usage.ts";
import type { SupervisedQemus } from "../../guest-process/supervised-qemus.ts";
import type { ClusterKeys } from "../../vcluster/cluster-keys.ts";
import type { ClusterNetworks } from "../../vcluster/network/cluster-network.ts";
import { networkOf } from "../network-of.ts";
import { tarArchive, type TarEntry } from "../tar-archive.ts";
import { ensureVnodeKeys } from "../vnode-keys.ts";
import { VnodeVolumes } from "../vnode-volumes.ts";
import type { MachineImage } from "./machine-images.ts";
import { MachineLine } from "./machine-line.ts";

export interface MachineVnodeHostDeps {
  /** DIR/vclusters */
  readonly folder: string;
  readonly instanceId: string;
  readonly exec: Exec;
  readonly clock: Clock;
  readonly processes: Pick<
    SupervisedQemus,
    "startQemu" | "get" | "forget" | "onExit" | "lastWords" | "placeOf"
  >;
  readonly networks: Pick<ClusterNetworks, "describe" | "worker" | "route">;
  readonly keysOf: (cluster: string) => ClusterKeys;
  /** Where the API server of a cluster is, for its workers. */
  readonly endpoint: (cluster: KeptCluster) => string;
  readonly list: (cluster: string) => readonly KeptVnode[];
  readonly images: (version: string, signal?: AbortSignal) => Promise<MachineImage>;
  readonly qemu: string;
  /** What runs guests on this node. */
  readonly accelerator: () => "kvm" | "tcg" | "none";
  readonly nameServers: () => NodeNameServers;
}

/** Emulated, a machine takes its time to end its pods. */
const STOP_MS = 20_000;
const QUIT_MS = 5_000;

export class MachineVnodeHost {
  readonly #deps: MachineVnodeHostDeps;
  readonly #lines = new Map<string, MachineLine>();

  constructor(deps: MachineVnodeHostDeps) {
    this.#deps = deps;
  }

  async start(cluster: KeptCluster, vnode: KeptVnode, signal: AbortSignal): Promise<void> {
    const { processes, networks, qemu, accelerator } = this.#deps;
    const id = machineId(cluster.name, vnode);
    if (this.#running(cluster.name, vnode) !== undefined) return;
    const index = networkOf(cluster);
    const image = await this.#deps.images(cluster.version, signal);
    await this.#write(cluster, vnode);
    const own = await this.#ownDisk(cluster.name, vnode);
    const files = { ...image, own, settings: this.#file(cluster.name, vnode, "settings.raw") };
    const uses = accelerator() === "kvm" ? "kvm" : "tcg";
    await processes.startQemu({
      id,
      label: `machine of ${vnode.name} of virtual cluster ${cluster.name}`,
      program: qemu,
      args: machineArguments({
        name: `${cluster.name}-${vnode.name}`,
        uuid: uuidOf(this.#hash(cluster.name, vnode)),
        mac: macOf(vnode),
        size: vnode.size,
        accelerator: uses,
        files,
        place: processes.placeOf(id),
      }),
      uuid: uuidOf(this.#hash(cluster.name, vnode)),
      files: [
        ...[files.kernel, files.initrd, files.root].map((path) => ({ path, access: "ro" }) as const),
        { path: files.own, access: "rw" },
        { path: files.settings, access: "ro", owned: true },
      ],
      taps: [
        {
          name: networks.worker(index, vnode.slot).port,
          bridge: networks.describe(index).bridge,
          firstFd: MACHINE_TAP_FD,
        },
      ],
      needsKvm: uses === "kvm",
      limits: { cpuLimit: vnode.size.cpus },
      bounds: machineBounds(vnode.size),
      note: { accelerator: uses },
    });
    this.#line(cluster.name, vnode).follow();
  }

  async restartPart(cluster: KeptCluster, vnode: KeptVnode, part: VnodePart): Promise<void> {
    await this.#write(cluster, vnode);
    await this.#line(cluster.name, vnode).say(`restart ${part}`);
  }

  /** One of that version, on the same disk. What takes long comes before the other one ends. */
  async exchange(cluster: KeptCluster, vnode: KeptVnode, signal: AbortSignal): Promise<void> {
    await this.#deps.images(cluster.version, signal);
    await this.stop(cluster, vnode);
    await this.start(cluster, vnode, signal);
  }

  /** The folder is made inside, when it hears of it or when it starts. */
  async makeVolume({ name }: KeptCluster, vnode: KeptVnode, volume: string, bytes: number): Promise<void> {
    const volumes = this.#volumes(name, vnode);
    if (!volumes.asked().includes(volume)) volumes.ask(volume, bytes);
    await this.#writeVolumes(name, vnode);
    await this.#line(name, vnode).say("volumes");
  }

  async removeVolume({ name }: KeptCluster, vnode: KeptVnode, volume: string): Promise<void> {
    await this.#line(name, vnode).say(`drop ${volume}`);
    await this.#volumes(name, vnode).remove(volume);
    await this.#writeVolumes(name, vnode);
  }

  /** Asked to end its pods and write what they wrote, then ended. */
  async stop(cluster: KeptCluster, vnode: KeptVnode): Promise<void> {
    const { processes, clock } = this.#deps;
    const id = machineId(cluster.name, vnode);
    const running = this.#running(cluster.name, vnode);
    if (running !== undefined) {
      await this.#line(cluster.name, vnode)
        .say("stop")
        .catch((err: unknown) => ignore(err, "one that does not listen is ended"));
      await Promise.race([running.exited, clock.sleep(STOP_MS)]);
      if (!running.hasExited) await running.stop({ timeoutMs: QUIT_MS });
    }
    this.#lines.get(id)?.close();
    this.#lines.delete(id);
    await processes.forget(id);
  }

  remove(cluster: KeptCluster, vnode: KeptVnode): void {
    rmSync(this.#place(cluster.name, vnode), { recursive: true, force: true });
  }

  /** Machines know the ways to each other from the start: the control plane is told. */
  async route(cluster: KeptCluster): Promise<void> {
    const { networks, list } = this.#deps;
    const index = networkOf(cluster);
    for (const vnode of list(cluster.name))
      await networks.route(index, undefined, {
        network: podNetworkOf(cluster, vnode),
        via: networks.worker(index, vnode.slot).address,
      });
  }

  isUp(cluster: KeptCluster, vnode: KeptVnode): boolean {
    const isRunning = this.#running(cluster.name, vnode) !== undefined;
    // After a start of the agent nobody listens yet.
    if (isRunning) this.#line(cluster.name, vnode).follow();
    return isRunning;
  }

  pods(cluster: KeptCluster, vnode: KeptVnode): readonly VnodePod[] {
    return this.#running(cluster.name, vnode) === undefined ? [] : this.#line(cluster.name, vnode).pods;
  }

  usage(cluster: KeptCluster, vnode: KeptVnode): VnodeUsage {
    return sumUsage([this.#running(cluster.name, vnode)?.usage() ?? []].flat());
  }

  accelerator(cluster: string, vnode: KeptVnode): "kvm" | "tcg" | undefined {
    const note = this.#running(cluster, vnode)?.note as { accelerator?: "kvm" | "tcg" } | undefined;
    return note?.accelerator;
  }

  lastWords(cluster: string, vnode: KeptVnode): readonly string[] {
    const id = machineId(cluster, vnode);
    const printed = this.#deps.processes
      .lastWords(id)
      .split("\n")
      .filter((line) => line.trim() !== "");
    return [...printed.map((line) => `machine: ${line}`), ...(this.#lines.get(id)?.words ?? [])].map(
      (line) => `${vnode.name} ${line}`,
    );
  }

  onEnd(listener: (cluster: string, vnode: string, part: "machine", why: string) => void): void {
    this.#deps.processes.onExit(({ id, exit }) => {
      const [, cluster = "", slot] = /^([^.]+)\.w(\d+)-machine$/.exec(id) ?? [];
      const vnode = this.#deps.list(cluster).find((each) => String(each.slot) === slot);
      this.#lines.get(id)?.close();
      this.#lines.delete(id);
      // One that was told to stop has its worker not wanted any more.
      if (vnode?.isWanted !== true || exit.cause === "stopped") return;
      listener(cluster, vnode.name, "machine", `${exit.cause}: ${exit.lastWords.trim().slice(-500)}`);
    });
  }

  async #write(cluster: KeptCluster, vnode: KeptVnode): Promise<void> {
    const { keysOf, endpoint, clock, networks } = this.#deps;
    const index = networkOf(cluster);
    const { address } = networks.worker(index, vnode.slot);
    const folder = this.#file(cluster.name, vnode, "etc");
    mkdirSync(join(folder, "net.d"), { recursive: true, mode: 0o700 });
    const wanted = { folder, name: vnode.name, address, server: endpoint(cluster) };
    await ensureVnodeKeys(keysOf(cluster.name), wanted, clock);
    const place = machinePlace({
      name: vnode.name,
      address,
      podNetwork: podNetworkOf(cluster, vnode),
      pauseImage: IMAGES.pause,
    });
    const facts = machineFacts(vnode.size);
    const files: Readonly<Record<string, string>> = {
      "containerd.toml": containerdConfig(place, facts),
      "kubelet.json": kubeletConfig(cluster.spec, place, vnode.size, facts),
      "kube-proxy.json": kubeProxyConfig(cluster.spec, place, facts),
      "net.d/10-pods.conflist": podNetworkConfig(place),
      "rules.nft": workerRules(cluster.spec.podCidr),
      "resolv.conf": resolvConf(cluster.spec, this.#deps.nameServers),
      ...machineFiles({
        name: vnode.name,
        address,
        gateway: networks.describe(index).gateway,
        machineId: this.#hash(cluster.name, vnode),
        podCidr: cluster.spec.podCidr,
        slot: vnode.slot,
        addressOf: (slot) => networks.worker(index, slot).address,
      }),
    };
    for (const [name, text] of Object.entries(files)) writeFileAtomic(join(folder, name), text);
    await this.#writeVolumes(cluster.name, vnode);
  }

  /** Which volumes it shall have, with all other settings. */
  async #writeVolumes(cluster: string, vnode: KeptVnode): Promise<void> {
    const folder = this.#file(cluster, vnode, "etc");
    const names = this.#volumes(cluster, vnode).asked();
    writeFileAtomic(join(folder, "volumes"), names.map((name) => `${name}\n`).join(""));
    await writeDisk(this.#file(cluster, vnode, "settings.raw"), await packed(folder));
  }

  #volumes(cluster: string, vnode: KeptVnode): VnodeVolumes {
    return new VnodeVolumes(this.#place(cluster, vnode), this.#deps.exec);
  }

  /** Made once: what the worker has written stays. */
  async #ownDisk(cluster: string, vnode: KeptVnode): Promise<string> {
    const path = this.#file(cluster, vnode, "own.raw");
    if (existsSync(path)) return path;
    const fresh = `${path}.new`;
    await writeFile(fresh, "", { mode: 0o600 });
    await truncate(fresh, MACHINE_DISK_BYTES);
    const later = "lazy_itable_init=1,lazy_journal_init=1,nodiscard";
    await this.#deps.exec("mke2fs", ["-q", "-F", "-t", "ext4", "-m", "0", "-E", later, fresh]);
    await rename(fresh, path);
    return path;
  }

  #line(cluster: string, vnode: KeptVnode): MachineLine {
    const id = machineId(cluster, vnode);
    const line =
      this.#lines.get(id) ?? new MachineLine(this.#deps.processes.placeOf(id).socketPath(MACHINE_LINE));
    this.#lines.set(id, line);
    return line;
  }

  #running(cluster: string, vnode: KeptVnode): GuestProcess | undefined {
    const found = this.#deps.processes.get(machineId(cluster, vnode));
    return found?.hasExited === true ? undefined : found;
  }

  /** 32 hexadecimal digits that are this worker's alone. */
  #hash(cluster: string, vnode: KeptVnode): string {
    return createHash("md5")
      .update(`${this.#deps.instanceId} ${machineId(cluster, vnode)}`)
      .digest("hex");
  }

  #file(cluster: string, vnode: KeptVnode, name: string): string {
    return join(this.#place(cluster, vnode), name);
  }

  #place(cluster: string, { name }: KeptVnode): string {
    return join(this.#deps.folder, "clusters", cluster, "vnodes", name);
  }
}

function machineId(cluster: string, { slot }: KeptVnode): string {
  return `${cluster}.w${slot}-machine`;
}

function podNetworkOf({ spec }: KeptCluster, { slot, name }: KeptVnode): string {
  const found = podNetwork(spec.podCidr, slot);
  if (found !== undefined) return found;
  throw new AppError("capacity.exceeded", `${spec.podCidr} has no room for the pods of ${name}`);
}

function uuidOf(hash: string): string {
  return hash.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** Nobody else is on its bridge. */
function macOf({ slot }: KeptVnode): string {
  return `02:67:70:76:65:${slot.toString(16).padStart(2, "0")}`;
}

/** What is in a folder, for root alone. */
function packed(folder: string): Promise<Buffer> {
  const entries = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .toSorted()
    .map((path): TarEntry => {
      const file = join(folder, path);
      return statSync(file).isDirectory()
        ? { path, kind: "folder" }
        : { path, kind: "file", content: readFileSync(file), mode: 0o600 };
    });
  return tarArchive(entries);
}

/** In place and always of one length: a machine that runs has it open. */
async function writeDisk(path: string, content: Buffer): Promise<void> {
  if (content.length > SETTINGS_DISK_BYTES)
    throw new AppError("internal.error", `settings of ${content.length} bytes do not fit on ${path}`);
  const disk = Buffer.alloc(SETTINGS_DISK_BYTES);
  content.copy(disk);
  const file = await open(path, existsSync(path) ? "r+" : "wx", 0o600);
  try {
    await file.write(disk, 0, disk.length, 0);
    await file.sync();
  } finally {
    await file.close();
  }
}
