// A cluster's folder, opened for work: what is wanted, who looks, who does, and what is written down.
import { given } from "@gpve/contracts/given.ts";
import { createHash, randomUUID } from "node:crypto";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Machine } from "../cluster/machine.ts";
import type { Driver } from "../driver/driver.ts";
import type { ClusterFolder } from "../folder/cluster-folder.ts";
import { type ClusterLock, clustersBeside, lockPath, writeLock } from "../folder/lock-file.ts";
import { keepCopies, ownFiles } from "../folder/own-files.ts";
import type { RunJournal } from "../folder/journal.ts";
import { clusterImages, type ImageWays } from "../image/cluster-images.ts";
import { imageRegister } from "../image/image-register.ts";
import type { Kubernetes } from "../kubernetes/kubernetes.ts";
import { machineConfig } from "../render/machine-config.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import {
  beginRotation,
  formerPrints,
  nextPhase,
  type RotationChoice,
  withoutOld,
} from "../secrets/rotation.ts";
import { adopted } from "./adopt.ts";
import { type ActDeps, Actor } from "./act.ts";
import { configParts, type ReadConfig } from "./config-parts.ts";
import { healthyControlPlane } from "./decide/decide-disruption.ts";
import { destroySteps } from "./destroy.ts";
import { restoreEtcd } from "./restore-etcd.ts";
import { type Step, stepName } from "../plan/plan-steps.ts";
import type { ApplyPart, Desired, WantedAddon } from "./desired.ts";
import type { Machines } from "./machines-port.ts";
import { listenBy } from "./observe/hear-machine.ts";
import { RealObserver } from "./observe/observer.ts";
import { afterFront, refuseHeldFront, withFront } from "./front-guard.ts";
import { etcdHealth } from "./quorum.ts";
import { type ApplyResult, runApply, type StepReport } from "./run-apply.ts";
import type { SeenAddon, World } from "./world.ts";

export interface ClusterDeps extends ImageWays {
  readonly place: ClusterFolder;
  readonly secrets: SecretsBundle;
  readonly secretsFile: string;
  readonly drivers: ReadonlyMap<string, Driver>;
  readonly talos: Machines;
  readonly kubernetes: Kubernetes;
  readonly clock: Clock;
  readonly journal: RunJournal;
  readonly keepSnapshot: (bytes: Buffer) => Promise<NonNullable<ClusterLock["snapshot"]>>;
  readonly addons?: Addons;
  /** Seals and keeps other secrets, and uses them from then on. */
  readonly keepSecrets?: (secrets: SecretsBundle) => Promise<void>;
  /** Throws unless every machine and Kubernetes are reached with these secrets alone. */
  readonly prove?: (secrets: SecretsBundle) => Promise<void>;
}

export interface Addons {
  readonly wanted: readonly WantedAddon[];
  apply(kubernetes: Kubernetes, name: string): Promise<void>;
  seen(kubernetes: Kubernetes): Promise<ReadonlyMap<string, SeenAddon>>;
}

export interface ApplyOptions {
  readonly only?: ApplyPart | undefined;
  readonly acceptsDowntime?: boolean;
  readonly report?: (report: StepReport) => void;
  readonly signal?: AbortSignal;
}

const SNAPSHOT_MAX_AGE_MS = 15 * 60_000;
const NO_ADDONS: Addons = {
  wanted: [],
  apply: () => Promise.resolve(),
  seen: () => Promise.resolve(new Map()),
};

export class OpenCluster {
  readonly #deps: ClusterDeps;
  readonly #registerImage: (machine: Machine) => Promise<void>;
  readonly #configs = new Map<string, ReadConfig>();
  readonly #observer: RealObserver;
  #lock: ClusterLock;
  #secrets: SecretsBundle;

  constructor(deps: ClusterDeps) {
    this.#deps = deps;
    this.#secrets = deps.secrets;
    this.#lock = deps.place.lock;
    const { place, drivers, talos, kubernetes, clock } = deps;
    this.#registerImage = imageRegister(place.cluster, deps.prepareImage);
    this.#observer = new RealObserver({
      cluster: place.cluster,
      machines: place.machines,
      config: (machine) => this.#configOf(machine),
      drivers,
      talos,
      kubernetes,
      addons: (api) => this.#addons.seen(api),
      snapshotAt: () => this.#lock.snapshot?.at,
      formerAddress: (name) => this.#lock.machines[name]?.addresses[0],
      now: () => clock.now(),
    });
  }

  get lock(): ClusterLock {
    return this.#lock;
  }

  observe(): Promise<World> {
    return this.#observer.observe();
  }

  desired({ only, acceptsDowntime = false }: ApplyOptions = {}): Desired {
    const { cluster, machines } = this.#deps.place;
    return {
      cluster,
      machines,
      config: (machine) => this.#configOf(machine).parts,
      beginning: this.#lock.beginning,
      replacing: (this.#lock.replacing ?? []).filter((name) => machines.some((each) => each.name === name)),
      resetting: (this.#lock.resetting ?? []).filter((name) => machines.some((each) => each.name === name)),
      addons: this.#addons.wanted,
      pinned: this.#lock.images ?? {},
      rotation: this.#rotationOf(this.#secrets),
      acceptsDowntime,
      only,
      snapshotMaxAgeMs: SNAPSHOT_MAX_AGE_MS,
    };
  }

  /** Decisions are pinned and copies kept before anything is touched. */
  async apply(options: ApplyOptions = {}): Promise<ApplyResult> {
    const { clock, journal } = this.#deps;
    this.#refuseShared();
    this.#keepCopies();
    this.#pin();
    if (this.#secrets !== this.#deps.secrets) await this.#deps.keepSecrets?.(this.#secrets);
    const result = await runApply({
      observer: this.#observer,
      actor: new Actor(this.#actDeps(options.signal)),
      journal,
      clock,
      ...given({ signal: options.signal }),
      desired: () => this.desired(options),
      begun: (world) => this.#begun(world),
      report: options.report ?? (() => undefined),
      listen: listenBy(this.#deps.drivers),
      run: randomUUID(),
    });
    if (result.findings.length === 0 && options.only === undefined)
      this.change((lock) => afterFront(lock, this.#deps.place.cluster));
    return result;
  }

  /** Every guest of the cluster, and the record of it; copies of what was are kept. */
  async destroy(report: (report: StepReport) => void = () => undefined): Promise<readonly Step[]> {
    const { place, clock, journal } = this.#deps;
    this.#keepCopies();
    const world = await this.#observer.observe();
    const steps = destroySteps(world);
    const actor = new Actor(this.#actDeps());
    const run = randomUUID();
    for (const step of steps) {
      const begun = clock.monotonic();
      const at = new Date(clock.now()).toISOString();
      journal.append({ at, run, event: "begin", step: stepName(step) });
      report({ event: "begin", step, elapsedMs: 0, expectedMs: 0 });
      await actor.act(step, this.desired(), world);
      const ms = Math.round(clock.monotonic() - begun);
      journal.append({
        at: new Date(clock.now()).toISOString(),
        run,
        event: "done",
        step: stepName(step),
        ms,
      });
      report({ event: "done", step, elapsedMs: ms, expectedMs: ms });
    }
    const { name } = place.cluster.metadata;
    this.change(() => ({ version: 1, cluster: name, appliedAt: null, contract: null, machines: {} }));
    return steps;
  }

  /** Of a healthy member, verified and kept. */
  async snapshot(): Promise<NonNullable<ClusterLock["snapshot"]>> {
    const world = await this.#observer.observe();
    const subject = healthyControlPlane(world);
    if (subject === undefined) {
      throw new AppError("node.unavailable", "no control plane has a healthy etcd to take a snapshot from", {
        data: { finding: "etcd-unhealthy" },
      });
    }
    await new Actor(this.#actDeps()).act(
      { kind: "etcd.snapshot", impact: "safe", subject },
      this.desired(),
      world,
    );
    const { snapshot } = this.#lock;
    if (snapshot === undefined) throw new AppError("internal.error", "the snapshot was not kept");
    return snapshot;
  }

  /** etcd begins from it; the other control planes join with the next apply. */
  async restore(snapshot: Buffer): Promise<string> {
    this.#keepCopies();
    const world = await this.#observer.observe();
    const machine = await restoreEtcd(this.desired(), world, this.#deps.talos, snapshot);
    const doneAt = new Date(this.#deps.clock.now()).toISOString();
    this.change((lock) => ({ ...lock, beginning: { machine, doneAt } }));
    return machine;
  }

  async adopt(): Promise<void> {
    const world = await this.#observer.observe();
    this.#keepCopies();
    this.change((lock) => adopted(this.#deps.place.cluster, lock, world));
  }

  #keepCopies(): void {
    const { place, clock, secretsFile } = this.#deps;
    const { cluster, folder } = place;
    keepCopies(folder, cluster.metadata.name, ownFiles(place, secretsFile), clock.now());
  }

  /** Written at once: whoever goes on after a crash must find it. */
  change(change: (lock: ClusterLock) => ClusterLock): void {
    const next = change(this.#lock);
    if (JSON.stringify(next) === JSON.stringify(this.#lock)) return;
    this.#lock = next;
    writeLock(this.#deps.place.folder, next);
  }

  /** New authorities are wanted, unless others are on their way; nothing is kept of it before `apply`. */
  async rotate(choice: RotationChoice): Promise<void> {
    if (this.#secrets.rotation !== undefined) return;
    if (this.#lock.appliedAt === null) {
      throw new AppError("object.conflict", `no machine of ${this.#lock.cluster} has an authority yet`, {
        data: { finding: "rotation-early", next: "gpvectl talos apply" },
      });
    }
    this.#use(await beginRotation(this.#secrets, choice, this.#deps.clock.now()));
  }

  #use(secrets: SecretsBundle): void {
    this.#secrets = secrets;
    this.#configs.clear();
  }

  #rotationOf(secrets: SecretsBundle): Desired["rotation"] {
    const { rotation } = secrets;
    if (rotation === undefined) return undefined;
    return {
      phase: rotation.phase,
      next: () => {
        const later = nextPhase(secrets);
        return { config: (machine) => this.#render(machine, later).parts, rotation: this.#rotationOf(later) };
      },
    };
  }

  async #rotated(): Promise<void> {
    const { keepSecrets, prove } = this.#deps;
    if (this.#secrets.rotation?.phase === "issue") await prove?.(withoutOld(this.#secrets));
    const next = nextPhase(this.#secrets);
    this.change((lock) => {
      const former = [...new Set([...(lock.formerAuthorities ?? []), ...formerPrints(next)])];
      return former.length === 0 ? lock : { ...lock, formerAuthorities: former };
    });
    await keepSecrets?.(next);
    this.#use(next);
  }

  /** Two files with one set of secrets would be one cluster. A drill's scratch cluster is kept apart by its file. */
  #refuseShared(): void {
    const { folder, cluster } = this.#deps.place;
    const { name } = cluster.metadata;
    refuseHeldFront(cluster, clustersBeside(folder, name));
    const isDrill = (lock: ClusterLock): boolean =>
      lock.restoring !== undefined || lock.cluster.endsWith("-drill");
    const other = clustersBeside(folder, name).find(
      (lock) => lock.identity === this.#identity && lock.appliedAt !== null && !isDrill(lock),
    );
    if (other === undefined || isDrill({ ...this.#lock, cluster: name })) return;
    throw new AppError(
      "object.conflict",
      `${name} has the secrets of ${other.cluster}, which is there already`,
      {
        data: { finding: "secrets-shared", next: "Nothing was changed." },
      },
    );
  }

  get #identity(): string {
    return createHash("sha256").update(this.#secrets.cluster.id).digest("hex");
  }

  #pin(): void {
    const { machines, cluster } = this.#deps.place;
    const pins = machines.map(
      ({ name, provider, host, vmid, addresses }): [string, ClusterLock["machines"][string]] => [
        name,
        { provider, host, vmid, addresses: [...addresses] },
      ],
    );
    this.change((lock) => ({
      ...withFront(lock, cluster),
      contract: lock.contract ?? cluster.versions.contract,
      identity: this.#identity,
      machines: { ...lock.machines, ...Object.fromEntries(pins) },
    }));
  }

  /** Seen running: from now on it must never be begun again. */
  #begun(world: World): void {
    const { beginning } = this.#lock;
    if (beginning?.doneAt !== undefined && beginning.doneAt !== null) return;
    const health = etcdHealth(world);
    if (health === undefined || health.healthy.size === 0) return;
    const machine = beginning?.machine ?? health.members[0]?.hostname ?? "";
    const doneAt = new Date(this.#deps.clock.now()).toISOString();
    this.change((lock) => ({ ...lock, beginning: { machine, doneAt } }));
  }

  #actDeps(signal?: AbortSignal): ActDeps {
    const { drivers, talos, kubernetes, clock, keepSnapshot } = this.#deps;
    return {
      drivers,
      talos,
      kubernetes,
      clock,
      documents: (machine) => this.#configOf(machine).documents,
      imageSource: clusterImages({
        ...this.#deps,
        lock: () => this.#lock,
        change: (change) => this.change(change),
        now: () => clock.now(),
        signal,
      }),
      registerImage: this.#registerImage,
      keepSnapshot: async (bytes) => {
        const snapshot = await keepSnapshot(bytes);
        this.change((lock) => ({ ...lock, snapshot }));
      },
      applyAddon: (api, name) => this.#addons.apply(api, name),
      records: {
        bootstrapping: (machine) =>
          this.change((lock) => ({ ...lock, beginning: lock.beginning ?? { machine, doneAt: null } })),
        replaced: (machine) =>
          this.change((lock) => ({
            ...lock,
            replacing: (lock.replacing ?? []).filter((name) => name !== machine),
          })),
        reset: (machine) =>
          this.change((lock) => ({
            ...lock,
            resetting: (lock.resetting ?? []).filter((name) => name !== machine),
          })),
        configured: () =>
          this.change((lock) => ({
            ...lock,
            appliedAt: lock.appliedAt ?? new Date(clock.now()).toISOString(),
          })),
        rotated: () => this.#rotated(),
      },
    };
  }

  get #addons(): Addons {
    return this.#deps.addons ?? NO_ADDONS;
  }

  #configOf(machine: Machine): ReadConfig {
    const known = this.#configs.get(machine.name);
    if (known !== undefined) return known;
    const made = this.#render(machine, this.#secrets);
    this.#configs.set(machine.name, made);
    return made;
  }

  #render(machine: Machine, secrets: SecretsBundle): ReadConfig {
    const { documents } = machineConfig({ ...this.#deps.place, secrets }, machine);
    return { documents, parts: configParts(documents) };
  }
}

export const snapshotFolder = (folder: string, cluster: string): string =>
  join(lockPath(folder, cluster), "..", "snapshots");
