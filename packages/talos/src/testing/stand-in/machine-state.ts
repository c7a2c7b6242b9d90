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
  #version: string;
  #next: string | undefined;
  readonly #pulled = new Set<string>();
  bootId = randomUUID();
  /** Faults of tests. */
  isTimeInSync = true;
  installerExitCode = 0;

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

  get version(): string {
    return this.#version;
  }

  get stage(): "maintenance" | "running" {
    return this.#config === undefined ? "maintenance" : "running";
  }

  /** Tells whether the machine boots with it at once. */
  apply(text: string, isDryRun: boolean): boolean {
    const config = readApplied(text);
    if (isDryRun) return false;
    const isFirst = this.#config === undefined;
    this.#config = config;
    return isFirst;
  }

  /** What happens while it starts. */
  boot(): void {
    this.bootId = randomUUID();
    this.#version = this.#next ?? this.#version;
    this.#next = undefined;
    const etcd = this.#etcd();
    if (etcd !== undefined && !this.#hasEtcdData && etcd.isRunning) {
      etcd.join(this.hostname);
      this.#hasEtcdData = true;
    }
  }

  bootstrap(): void {
    const etcd = this.#etcd();
    if (etcd === undefined)
      throw refused("bootstrap can only be performed on a control plane node", Code.FailedPrecondition);
    if (!this.isTimeInSync) throw refused("time is not in sync yet", Code.FailedPrecondition);
    if (this.#hasEtcdData) throw refused("etcd data directory is not empty", Code.AlreadyExists);
    etcd.bootstrap(this.hostname);
    this.#hasEtcdData = true;
  }

  /** Of a machine whose etcd runs. */
  member(): ClusterEtcd {
    const etcd = this.#etcd();
    const isMember = etcd?.members.some(({ hostname }) => hostname === this.hostname) === true;
    if (etcd === undefined || !isMember) throw refused("etcd is not running", Code.Unavailable);
    return etcd;
  }

  leaveEtcd(): void {
    this.member().leave(this.hostname);
    this.#hasEtcdData = false;
  }

  snapshot(): Buffer {
    const names = this.member().members.map(({ hostname }) => hostname);
    const content = Buffer.from(JSON.stringify(names));
    return Buffer.concat([content, createHash("sha256").update(content).digest()]);
  }

  pull(image: string): string {
    if (!/:v\d+\.\d+\.\d+/.test(image))
      throw refused(`failed to resolve reference "${image}"`, Code.NotFound);
    this.#pulled.add(image);
    return image;
  }

  /** The installer's exit code. */
  upgrade(image: string): number {
    if (!this.#pulled.has(image)) throw refused(`image "${image}" not found`, Code.NotFound);
    if (this.installerExitCode === 0) this.#next = /:(v\d+\.\d+\.\d+[^@]*)/.exec(image)?.[1];
    return this.installerExitCode;
  }

  reset(isGraceful: boolean): void {
    const isMember = this.#etcd()?.members.some(({ hostname }) => hostname === this.hostname) === true;
    // Without grace the others keep a member that is gone.
    if (isGraceful && isMember) this.leaveEtcd();
    this.#hasEtcdData = false;
    this.#config = undefined;
    this.#next = undefined;
  }

  #etcd(): ClusterEtcd | undefined {
    const config = this.#config;
    return config?.isControlPlane === true ? this.#facts.clusters.etcd(config.clusterId) : undefined;
  }

  /** COSI resources, by namespace, type and id. */
  resources(): Readonly<Record<string, unknown>> {
    const isReady = this.stage === "running";
    const named: Record<string, unknown> = {
      "runtime/MachineStatuses.runtime.talos.dev/machine": {
        stage: this.stage,
        status: { ready: isReady, unmetConditions: [] },
      },
      "hardware/SystemInformations.hardware.talos.dev/systeminformation": {
        uuid: this.#facts.uuid,
        manufacturer: "QEMU",
      },
      "network/HostnameStatuses.net.talos.dev/hostname": { hostname: this.hostname, domainname: "" },
      "runtime/TimeStatuses.v1alpha1.talos.dev/node": { synced: this.isTimeInSync },
    };
    if (this.#config !== undefined)
      named["config/MachineConfigs.config.talos.dev/v1alpha1"] = this.#config.text;
    return named;
  }
}

export function refused(message: string, code: Code): ConnectError {
  return new ConnectError(message, code);
}
