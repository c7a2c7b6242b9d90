// One machine's API: what it is, what it is told, what it says of itself.
import { gunzipSync } from "node:zlib";
import { createClient, type CallOptions, type Client } from "@connectrpc/connect";
import { parse, parseAllDocuments } from "yaml";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { Data, Metadata } from "../gen/proto/common/common_pb.ts";
import { State } from "../gen/proto/cosi/resource/state_pb.ts";
import {
  ImageService,
  LifecycleService,
  MachineService,
  type EtcdMember,
} from "../gen/proto/machine/machine_pb.ts";
import { hasLifecycle } from "../engine/versions.ts";
import { openConnection, type TalosConnection, type TalosTrust } from "./talos-connection.ts";
import type { Dial } from "./ssh-jump.ts";
import { talosError } from "./talos-error.ts";

export interface TalosOptions {
  readonly address: string;
  readonly trust: TalosTrust;
  /** The machine meant, where another one passes calls on. */
  readonly node?: string;
  readonly timeoutMs?: number;
  readonly dial?: Dial;
}

export type ApplyMode = "auto" | "no-reboot" | "reboot" | "staged";
const modes: Readonly<Record<ApplyMode, number>> = { reboot: 0, auto: 1, "no-reboot": 2, staged: 3 };

export interface MachineVersion {
  readonly tag: string;
  readonly platform: string;
}

export interface Member {
  /** Decimal: ids do not fit into a number. */
  readonly id: string;
  readonly hostname: string;
  readonly isLearner: boolean;
}

export interface MemberStatus {
  readonly id: string;
  /** The leader's id. */
  readonly leader: string;
  readonly errors: readonly string[];
}

export interface Alarm {
  readonly id: string;
  readonly alarm: string;
}

/** What a client of a machine can do, whoever it is. */
export type TalosMachine = Pick<TalosClient, keyof TalosClient>;

/** What makes a machine one of a cluster: its configuration, and everything that it keeps. */
export const RESET_LABELS = ["STATE", "EPHEMERAL"] as const;

const PIECE_BYTES = 32 * 1024;
const TIMEOUT_MS = 30_000;
/** For what moves images and snapshots. */
const LONG_MS = 15 * 60_000;
/** containerd, in the system's namespace. */
const SYSTEM = { driver: 0, namespace: 1 };

export class TalosClient {
  readonly #address: string;
  readonly #connection: TalosConnection;
  readonly #machine: Client<typeof MachineService>;
  readonly #state: Client<typeof State>;
  readonly #images: Client<typeof ImageService>;
  readonly #lifecycle: Client<typeof LifecycleService>;
  readonly #call: CallOptions;
  readonly #long: CallOptions;

  static async open(options: TalosOptions): Promise<TalosClient> {
    return new TalosClient(options, await openConnection(options.address, options.trust, options.dial));
  }

  private constructor(options: TalosOptions, connection: TalosConnection) {
    this.#address = options.node ?? options.address;
    this.#connection = connection;
    const { transport } = connection;
    this.#machine = createClient(MachineService, transport);
    this.#state = createClient(State, transport);
    this.#images = createClient(ImageService, transport);
    this.#lifecycle = createClient(LifecycleService, transport);
    this.#call = {
      timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
      ...(options.node === undefined ? {} : { headers: { node: options.node } }),
    };
    this.#long = { ...this.#call, timeoutMs: LONG_MS };
  }

  close(): void {
    this.#connection.close();
  }

  async version(): Promise<MachineVersion> {
    const { version, platform } = await this.#one("read the version", () =>
      this.#machine.version({}, this.#call),
    );
    return { tag: version?.tag ?? "", platform: platform?.name ?? "" };
  }

  /** Returns what the machine warns of. */
  async apply(config: string, mode: ApplyMode, isDryRun = false): Promise<readonly string[]> {
    const request = { data: Buffer.from(config), mode: modes[mode], dryRun: isDryRun };
    const { warnings } = await this.#one("apply the configuration", () =>
      this.#machine.applyConfiguration(request, this.#call),
    );
    return warnings;
  }

  /**
   * Only ever on one machine of a cluster: a second one would begin a cluster of its own. With `recover`, from the
   * snapshot that was sent to this machine before.
   */
  async bootstrap(recover = false): Promise<void> {
    const request = { recoverEtcd: recover };
    await this.#one("bootstrap etcd", () => this.#machine.bootstrap(request, this.#call));
  }

  /** A snapshot to begin etcd from. */
  async etcdRecover(snapshot: Uint8Array): Promise<void> {
    async function* pieces(): AsyncGenerator<{ bytes: Uint8Array }> {
      for (let at = 0; at < snapshot.length; at += PIECE_BYTES)
        yield { bytes: snapshot.subarray(at, at + PIECE_BYTES) };
    }
    await this.#one("send a snapshot of etcd", () => this.#machine.etcdRecover(pieces(), this.#long));
  }

  /** The configuration that the machine runs with. */
  async machineConfig(): Promise<string> {
    const { resource } = await this.#guard("read the configuration", () =>
      this.#state.get(
        { namespace: "config", type: "MachineConfigs.config.talos.dev", id: "v1alpha1" },
        this.#call,
      ),
    );
    const text = resource?.spec?.yamlSpec ?? "";
    // Configurations of several documents come as one text.
    const documents = [...parseAllDocuments(text)];
    const value: unknown = documents.length === 1 ? documents[0]?.toJS() : undefined;
    return typeof value === "string" ? value : text;
  }

  async members(): Promise<readonly Member[]> {
    const { members } = await this.#one("list etcd's members", () =>
      this.#machine.etcdMemberList({}, this.#call),
    );
    return members.map(memberOf);
  }

  /** Of the machine's own member. */
  async etcdStatus(): Promise<MemberStatus> {
    const { memberStatus } = await this.#one("read etcd's status", () =>
      this.#machine.etcdStatus({}, this.#call),
    );
    return {
      id: String(memberStatus?.memberId ?? 0n),
      leader: String(memberStatus?.leader ?? 0n),
      errors: memberStatus?.errors ?? [],
    };
  }

  /** Ids of members, and what is wrong with them. */
  async etcdAlarms(): Promise<readonly Alarm[]> {
    const { memberAlarms } = await this.#one("list etcd's alarms", () =>
      this.#machine.etcdAlarmList({}, this.#call),
    );
    return memberAlarms
      .filter(({ alarm }) => alarm !== 0)
      .map(({ memberId, alarm }) => ({ id: String(memberId), alarm: alarm === 1 ? "no space" : "corrupt" }));
  }

  /** "Running", "Preparing", ...; undefined: the machine has no such service. */
  async serviceState(id: string): Promise<string | undefined> {
    const { services } = await this.#one("list services", () => this.#machine.serviceList({}, this.#call));
    return services.find((service) => service.id === id)?.state;
  }

  async removeMember(id: string): Promise<void> {
    await this.#one(`remove etcd's member ${id}`, () =>
      this.#machine.etcdRemoveMemberByID({ memberId: BigInt(id) }, this.#call),
    );
  }

  async leaveEtcd(): Promise<void> {
    await this.#one("forfeit etcd's leadership", () => this.#machine.etcdForfeitLeadership({}, this.#call));
    await this.#one("leave etcd", () => this.#machine.etcdLeaveCluster({}, this.#call));
  }

  /** All of it, however large it is. */
  etcdSnapshot(): Promise<Buffer> {
    return this.#bytes("take a snapshot of etcd", this.#machine.etcdSnapshot({}, this.#long));
  }

  async kubeconfig(): Promise<string> {
    const archive = await this.#bytes("read the kubeconfig", this.#machine.kubeconfig({}, this.#call));
    return firstFile(archive);
  }

  /** Another one after every boot. */
  async bootId(): Promise<string> {
    const path = "/proc/sys/kernel/random/boot_id";
    const bytes = await this.#bytes(`read ${path}`, this.#machine.read({ path }, this.#call));
    return bytes.toString("utf8").trim();
  }

  async reboot(): Promise<void> {
    await this.#one("reboot", () => this.#machine.reboot({}, this.#call));
  }

  /** The machine does not drain its node: whoever tells it has done so. */
  async shutdown(): Promise<void> {
    await this.#one("shut down", () => this.#machine.shutdown({ force: true }, this.#call));
  }

  /**
   * Configuration and data wiped, and in maintenance again. Graceful: it leaves etcd first. Partitions are named: without,
   * Talos wipes the disk it boots from.
   */
  async reset(isGraceful: boolean): Promise<void> {
    const systemPartitionsToWipe = RESET_LABELS.map((label) => ({ label, wipe: true }));
    const request = { graceful: isGraceful, reboot: true, systemPartitionsToWipe };
    await this.#one("reset", () => this.#machine.reset(request, this.#call));
  }

  /**
   * Talos installs the image beside the one that runs. Tells whether it reboots by itself: machines before 1.13 do, in
   * the one call that they know; the others are rebooted when the caller likes.
   */
  async upgrade(image: string, onProgress: (text: string) => void = () => undefined): Promise<boolean> {
    const { tag } = await this.version();
    if (hasLifecycle(tag)) {
      await this.#install(image, onProgress);
      return false;
    }
    // Without `preserve` the oldest ones would empty EPHEMERAL, and etcd with it.
    const request = { image, preserve: true };
    await this.#one(`upgrade to ${image}`, () => this.#machine.upgrade(request, this.#long));
    return true;
  }

  /** Nothing but that: the machine has what an upgrade needs. Returns what the machine calls it. */
  pull(image: string): Promise<string> {
    return this.#guard(`pull ${image}`, async () => {
      let name = "";
      for await (const { response } of this.#images.pull({ containerd: SYSTEM, imageRef: image }, this.#long))
        if (response.case === "name") name = response.value;
      return name;
    });
  }

  async #install(image: string, onProgress: (text: string) => void): Promise<void> {
    const doing = `upgrade to ${image}`;
    const source = { imageName: await this.pull(image) };
    await this.#guard(doing, async () => {
      let exit: number | undefined;
      for await (const { progress } of this.#lifecycle.upgrade({ containerd: SYSTEM, source }, this.#long)) {
        if (progress?.response.case === "message") onProgress(progress.response.value);
        else if (progress?.response.case === "exitCode") exit = progress.response.value;
      }
      // The stream ends well also when the installer did not.
      if (exit === 0) return;
      const how = exit === undefined ? "ended without a word" : `failed with exit code ${exit}`;
      throw new AppError("operation.failed", `${doing} at ${this.#address}: the installer ${how}`);
    });
  }

  /** A resource's specification; undefined when there is none. */
  async resource(namespace: string, type: string, id: string): Promise<unknown> {
    try {
      const { resource } = await this.#guard(`read ${type}/${id}`, () =>
        this.#state.get({ namespace, type, id }, this.#call),
      );
      return parse(resource?.spec?.yamlSpec ?? "") as unknown;
    } catch (err) {
      if (isAppError(err, "object.not_found")) return undefined;
      throw err;
    }
  }

  async resources(namespace: string, type: string): Promise<ReadonlyMap<string, unknown>> {
    return this.#guard(`list ${type}`, async () => {
      const found = new Map<string, unknown>();
      for await (const { resource } of this.#state.list({ namespace, type }, this.#call))
        found.set(resource?.metadata?.id ?? "", parse(resource?.spec?.yamlSpec ?? ""));
      return found;
    });
  }

  /** The one machine's part of an answer that could be many machines'. */
  async #one<T extends { readonly metadata?: Metadata | undefined }>(
    doing: string,
    call: () => Promise<{ readonly messages: readonly T[] }>,
  ): Promise<T> {
    const { messages } = await this.#guard(doing, call);
    const [message] = messages;
    const problem = message === undefined ? "no answer" : (message.metadata?.error ?? "");
    if (message !== undefined && problem === "") return message;
    throw new AppError("node.unavailable", `${doing} at ${this.#address}: ${problem}`);
  }

  #bytes(doing: string, stream: AsyncIterable<Data>): Promise<Buffer> {
    return this.#guard(doing, async () => {
      const pieces: Uint8Array[] = [];
      for await (const { bytes, metadata } of stream) {
        const error = metadata?.error ?? "";
        if (error !== "") throw new AppError("node.unavailable", `${doing} at ${this.#address}: ${error}`);
        pieces.push(bytes);
      }
      return Buffer.concat(pieces);
    });
  }

  async #guard<T>(doing: string, call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (err) {
      throw talosError(err, doing, this.#address);
    }
  }
}

function memberOf({ id, hostname, isLearner }: EtcdMember): Member {
  return { id: String(id), hostname, isLearner };
}

/** Of a tar that is packed with gzip and that Talos leaves without an end. */
function firstFile(archive: Buffer): string {
  const tar = gunzipSync(archive);
  const size = Number.parseInt(tar.toString("latin1", 124, 136), 8);
  if (!Number.isInteger(size) || tar.length < 512 + size) {
    throw new AppError("internal.error", "the machine's kubeconfig is no archive of one file");
  }
  return tar.toString("utf8", 512, 512 + size);
}
