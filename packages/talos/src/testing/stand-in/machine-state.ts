// A machine from its first boot to its end, without a network: what it has, what it may be told, what it refuses.
//
//   maintenance --apply--> (boot) --> running --reboot--> (boot) --> running
//        ^                               |
//        +-------------- reset ----------+
//
// etcd of a control plane: preparing until the cluster was begun, then a member; its data stays over reboots.
import { createHash, randomUUID } from "node:crypto";
import { Code, ConnectError } from "@connectrpc/connect";
import type { ClusterEtcd, StandInClusters } from "./cluster-etcd.ts";
import { readApplied, type AppliedConfig } from "./applied-config.ts";

export interface MachineFacts {
  /** SMBIOS' one, by which a VM is known. */
  readonly uuid: string;
  readonly version: string;
  readonly clusters: StandInClusters;
}

export class MachineState {
  readonly #facts: MachineFacts;
  #config: AppliedConfig | undefined;
  #hasEtcdData = false;
  /** Until the next boot. */
  #hasLeft = false;
  #version: string;
  #next: { readonly version: string | undefined; readonly schematic: string | undefined } | undefined;
  /** Of the image it runs; undefined: no factory made it. */
  schematic: string | undefined;
  readonly #pulled = new Set<string>();
  bootId = randomUUID();
  /** Whether the VM runs. */
  isOn = true;
  /** Faults of tests. */
  isTimeInSync = true;
  /** The name it tells instead of its configuration's. */
  announces: string | undefined;
  /** Its default routes, as gateways and cards; none are told unless said. */
  defaultRoutes: readonly { readonly gateway: string; readonly link: string; readonly priority?: number }[] =
    [];
  installerExitCode = 0;
  /** Whoever it pulls from has no image of the version. */
  lacksInstallers = false;
  /** The new system does not boot: the machine goes back to the old one. */
  failsToBootNew = false;
  /** How often it was told to shut down. */
  shutdowns = 0;
  /** It goes on whoever tells it to shut down. */
  neverEnds = false;
  refusesShutdown = false;
  /** What takes the power from the VM. */
  onShutdown: () => void = () => undefined;
  /** What its kernel was started with. */
  cmdline = "talos.platform=nocloud console=ttyS0";
  /** False: it runs from an ISO, and its disk is empty until a configuration says where to install. */
  isInstalled = true;
  /** Sizes of its disks, in GiB. */
  disks: readonly number[] = [];
  /** A snapshot that was sent, to begin etcd from. */
  #recovery: Buffer | undefined;
  /** What else was in the snapshot that its etcd began from. */
  recovered: string | undefined;

  constructor(facts: MachineFacts) {
    this.#facts = facts;
    this.#version = facts.version;
  }

  get config(): AppliedConfig | undefined {
    return this.#config;
  }

  get hostname(): string {
    return this.#config?.hostname ?? `talos-${this.#facts.uuid.slice(0, 5)}`;
  }

  /** What others learn of it. */
  get announced(): string {
    return this.announces ?? this.hostname;
  }

  get version(): string {
    return this.#version;
  }

  /** A control plane is still booting until its etcd runs. */
  get stage(): "maintenance" | "booting" | "running" {
    if (this.#config === undefined) return "maintenance";
    return this.#config.isControlPlane && this.etcdService !== "Running" ? "booting" : "running";
  }

  /** As the machine names the state of etcd's service. */
  get etcdService(): string {
    const etcd = this.#etcd();
    if (etcd === undefined) return "";
    this.#joinWhenPossible();
    if (!this.#hasEtcdData) return this.#hasLeft ? "Finished" : "Preparing";
    return this.#isMember(etcd) ? "Running" : "Failed";
  }

  get machineUuid(): string {
    return this.#facts.uuid;
  }

  /** Tells whether the machine boots with it at once. */
  apply(text: string, isDryRun: boolean, mode = 1): boolean {
    const config = readApplied(text);
    const isFirst = this.#config === undefined;
    const isRebooting = !isFirst && needsReboot(this.#config?.text ?? "", text);
    if (isRebooting && mode === NO_REBOOT)
      throw refused(
        "this config change can't be applied in immediate mode: it needs a reboot",
        Code.InvalidArgument,
      );
    if (!this.isInstalled && config.installDisk !== "/dev/sda")
      throw refused("install disk is required to install Talos", Code.InvalidArgument);
    if (isDryRun) return false;
    this.isInstalled = true;
    this.#config = config;
    return isFirst || isRebooting;
  }

  /** What happens while it starts. */
  boot(): void {
    this.bootId = randomUUID();
    this.#hasLeft = false;
    if (!this.failsToBootNew) {
      this.#version = this.#next?.version ?? this.#version;
      this.schematic = this.#next?.schematic ?? this.schematic;
    }
    this.#next = undefined;
    this.#joinWhenPossible();
  }

  /** Control planes look for a cluster to join until there is one. */
  #joinWhenPossible(): void {
    const etcd = this.#etcd();
    if (etcd === undefined || this.#hasEtcdData || this.#hasLeft || !this.isOn || !etcd.isRunning) return;
    etcd.join(this.hostname, () => this.isOn);
    this.#hasEtcdData = true;
  }

  #isMember(etcd: ClusterEtcd): boolean {
    return this.#hasEtcdData && etcd.members.some(({ hostname }) => hostname === this.hostname);
  }

  recover(snapshot: Buffer): void {
    if (this.#etcd() === undefined) throw refused("not a control plane node", Code.FailedPrecondition);
    const hash = createHash("sha256").update(snapshot.subarray(0, -HASH_BYTES)).digest();
    if (snapshot.length < HASH_BYTES || !snapshot.subarray(-HASH_BYTES).equals(hash))
      throw refused("snapshot hash mismatch", Code.InvalidArgument);
    this.#recovery = snapshot;
  }

  bootstrap(isRecovery = false): void {
    const etcd = this.#etcd();
    if (etcd === undefined)
      throw refused("bootstrap can only be performed on a control plane node", Code.FailedPrecondition);
    if (!this.isTimeInSync) throw refused("time is not in sync yet", Code.FailedPrecondition);
    this.#joinWhenPossible();
    if (this.#hasEtcdData) throw refused("etcd data directory is not empty", Code.AlreadyExists);
    if (isRecovery && this.#recovery === undefined)
      throw refused("etcd recovery snapshot is missing", Code.FailedPrecondition);
    etcd.bootstrap(this.hostname, () => this.isOn);
    this.recovered = this.#recovery === undefined ? undefined : contentOf(this.#recovery);
    this.#recovery = undefined;
    this.#hasEtcdData = true;
  }

  /** Of a machine whose etcd runs. */
  member(): ClusterEtcd {
    const etcd = this.#etcd();
    this.#joinWhenPossible();
    if (etcd === undefined || !this.#isMember(etcd)) throw refused("etcd is not running", Code.Unavailable);
    return etcd;
  }

  /** Of the machine's own member. */
  memberStatus(): { memberId: bigint; leader: bigint; errors: string[] } {
    const etcd = this.member();
    const own = etcd.members.find(({ hostname }) => hostname === this.hostname);
    const problem = etcd.errors.get(this.hostname);
    return {
      memberId: own?.id ?? 0n,
      leader: etcd.leader?.id ?? 0n,
      errors: problem === undefined ? [] : [problem],
    };
  }

  leaveEtcd(): void {
    this.member().leave(this.hostname);
    this.#hasEtcdData = false;
    this.#hasLeft = true;
  }

  /** `content`: what is in etcd beside its members. */
  snapshot(content?: string): Buffer {
    const members = this.member().members.map(({ hostname }) => hostname);
    const bytes = Buffer.from(JSON.stringify({ members, content }));
    return Buffer.concat([bytes, createHash("sha256").update(bytes).digest()]);
  }

  pull(image: string): string {
    if (this.lacksInstallers || !/:v\d+\.\d+\.\d+/.test(image))
      throw refused(`failed to resolve reference "${image}"`, Code.NotFound);
    this.#pulled.add(image);
    return image;
  }

  /** The installer's exit code. */
  upgrade(image: string): number {
    if (!this.#pulled.has(image)) throw refused(`image "${image}" not found`, Code.NotFound);
    if (this.installerExitCode === 0)
      this.#next = {
        version: /:(v\d+\.\d+\.\d+[^@]*)/.exec(image)?.[1],
        schematic: /\/([0-9a-f]{64}):/.exec(image)?.[1],
      };
    return this.installerExitCode;
  }

  /** As machines before 1.13 do it: their own guard of etcd, the image, and the boot after it. */
  upgradeAtOnce(image: string): void {
    if (this.#etcd() !== undefined && this.member().members.length === 2)
      throw refused("etcd member count is 2, upgrade would lose quorum", Code.FailedPrecondition);
    this.upgrade(this.pull(image));
  }

  shutdown(): void {
    if (this.refusesShutdown) throw refused("shutdown sequence is already running", Code.FailedPrecondition);
    this.shutdowns += 1;
    if (this.neverEnds) return;
    this.onShutdown();
    this.isOn = false;
  }

  /** `labels`: partitions; none of them means the whole disk, from which nothing boots any more. */
  reset(isGraceful: boolean, labels: readonly string[]): void {
    const etcd = this.#etcd();
    const isMember = etcd !== undefined && this.#isMember(etcd);
    // Without grace the others keep a member that is gone.
    if (isGraceful && isMember) this.leaveEtcd();
    this.#hasEtcdData = false;
    this.#config = undefined;
    this.#next = undefined;
    if (labels.length === 0) this.isOn = false;
  }

  #etcd(): ClusterEtcd | undefined {
    const config = this.#config;
    return config?.isControlPlane === true ? this.#facts.clusters.etcd(config.clusterId) : undefined;
  }

  /** COSI resources, by namespace, type and id. */
  resources(): Readonly<Record<string, unknown>> {
    const isReady = this.stage === "running" && this.isOn;
    const named: Record<string, unknown> = {
      "runtime/MachineStatuses.runtime.talos.dev/machine": {
        stage: this.stage,
        status: { ready: isReady, unmetConditions: [] },
      },
      "hardware/SystemInformations.hardware.talos.dev/systeminformation": {
        uuid: this.#facts.uuid,
        manufacturer: "QEMU",
      },
      "network/HostnameStatuses.net.talos.dev/hostname": { hostname: this.announced, domainname: "" },
      "runtime/KernelCmdlines.runtime.talos.dev/cmdline": { cmdline: this.cmdline },
      "runtime/TimeStatuses.v1alpha1.talos.dev/node": { synced: this.isTimeInSync },
    };
    for (const [at, gib] of this.disks.entries()) {
      const device = `sd${String.fromCodePoint(97 + at)}`;
      named[`runtime/Disks.block.talos.dev/${device}`] = {
        dev_path: `/dev/${device}`,
        size: gib * 1024 ** 3,
      };
    }
    for (const { gateway, link, priority = 1024 } of this.defaultRoutes)
      named[`network/RouteStatuses.net.talos.dev/${link}/inet4/${gateway}//${priority}`] = {
        ...ROUTE,
        gateway,
        outLinkName: link,
        priority,
      };
    // One that is no default route, as every machine has.
    if (this.defaultRoutes.length > 0)
      named["network/RouteStatuses.net.talos.dev/lo/inet4//127.0.0.0/8/0"] = {
        ...ROUTE,
        dst: "127.0.0.0/8",
        outLinkName: "lo",
        table: "local",
      };
    if (this.schematic !== undefined)
      named["runtime/ExtensionStatuses.runtime.talos.dev/0"] = {
        image: "0.sqsh",
        metadata: { name: "schematic", version: this.schematic, author: "Image Factory" },
      };
    if (this.#config !== undefined)
      named["config/MachineConfigs.config.talos.dev/v1alpha1"] = this.#config.text;
    return named;
  }
}

const ROUTE = {
  family: "inet4",
  dst: "",
  src: "",
  gateway: "",
  table: "main",
  priority: 0,
  scope: "global",
  type: "unicast",
  flags: "",
  protocol: "static",
};
const NO_REBOOT = 2;
const HASH_BYTES = 32;

/** undefined: nothing, or a snapshot that no stand-in has taken. */
function contentOf(snapshot: Buffer): string | undefined {
  const text = snapshot.subarray(0, -HASH_BYTES).toString("utf8");
  return text.startsWith('{"members"') ? (JSON.parse(text) as { content?: string }).content : undefined;
}

/** Real machines compare much more; these are enough to tell the two ways apart. */
function needsReboot(before: string, after: string): boolean {
  const part = (text: string): string =>
    [...text.matchAll(/^ *(?:extraKernelArgs|kernelModule|wipe|systemDiskEncryption):.*$/gm)].join("\n");
  return part(before) !== part(after);
}

export function refused(message: string, code: Code): ConnectError {
  return new ConnectError(message, code);
}
