// How each step is done. What is about to be deleted or stopped is looked at once more: it must be ours.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { durationMs } from "../cluster/duration.ts";
import type { Machine } from "../cluster/machine.ts";
import type { TalosMachine } from "../client/talos-client.ts";
import { writeConfig } from "../config/config-text.ts";
import type { ConfigDocument } from "../config/document.ts";
import type { Driver } from "../driver/driver.ts";
import type { ImageSources } from "../image/cluster-images.ts";
import { refusedImage } from "../image/refused-image.ts";
import { drainNode, type DrainPolicy } from "../kubernetes/drain-node.ts";
import type { Kubernetes } from "../kubernetes/kubernetes.ts";
import { wantedMarks } from "../kubernetes/node-marks.ts";
import type { GuestClone, GuestStep, InsideStep, KubernetesStep, Step } from "../plan/plan-steps.ts";
import { refuseOtherBalancers, refuseOthers, refuseOtherTemplates } from "./refuse-others.ts";
import { withVersions } from "./config-parts.ts";
import { healthyControlPlane } from "./decide/decide-disruption.ts";
import { type Desired, wantedKubernetes } from "./desired.ts";
import { refuseOtherDisk } from "./install-disk.ts";
import { uuidOf } from "./observe/look-at-machine.ts";
import type { Machines } from "./machines-port.ts";
import { reachedAt } from "./observe/machine-address.ts";
import { addressOf } from "./observe/observer.ts";
import { shutDown, type ShutDownDeps } from "./shut-down.ts";
import { readyUpgrade, type UpgradeDeps, upgradeMachine } from "./upgrade-machine.ts";
import { configured, type SeenConfig, type World } from "./world.ts";

export interface ActDeps {
  readonly drivers: ReadonlyMap<string, Driver>;
  readonly talos: Machines;
  readonly kubernetes: Kubernetes;
  readonly clock: Clock;
  readonly documents: (machine: Machine) => readonly ConfigDocument[];
  readonly imageSource: ImageSources;
  /** Makes known to the Image Factory what a machine's installer is made of. */
  readonly registerImage: (machine: Machine) => Promise<void>;
  readonly keepSnapshot: (bytes: Buffer) => Promise<void>;
  readonly applyAddon: (kubernetes: Kubernetes, name: string) => Promise<void>;
  readonly records: Records;
}

/** What must be on disk before it is done, or once it was. */
export interface Records {
  bootstrapping(machine: string): void;
  replaced(machine: string): void;
  reset(machine: string): void;
  configured(): void;
  /** The old authorities go only once everybody was reached without them. */
  rotated(): Promise<void>;
}

export class Actor {
  readonly #deps: ActDeps;
  /** The last clone that was asked for. */
  #cloned: Promise<void> = Promise.resolve();

  constructor(deps: ActDeps) {
    this.#deps = deps;
  }

  /** `tell`: how far a long one is. */
  async act(
    step: Step,
    desired: Desired,
    world: World,
    tell: (note: string) => void = () => undefined,
  ): Promise<void> {
    switch (step.kind) {
      case "template.create":
      case "template.seal":
      case "template.delete":
      case "balancer.create":
      case "balancer.change":
      case "balancer.start":
      case "balancer.stop":
      case "balancer.delete":
      case "image.ensure":
      case "guest.clone":
      case "guest.create":
      case "guest.resize":
      case "guest.change":
      case "guest.start":
      case "guest.stop":
      case "guest.delete":
        return this.#onPlatform(step, desired, world, tell);
      case "talos.reach":
      case "etcd.join":
      case "kubernetes.reach":
      case "node.ready":
        // Others do it; it is waited for.
        return;
      case "record.replaced":
        return this.#deps.records.replaced(step.subject);
      case "record.reset":
        return this.#deps.records.reset(step.subject);
      case "record.rotated":
        return this.#deps.records.rotated();
      case "kubernetes.components":
      case "kubernetes.kubelet":
      case "node.drain":
      case "node.uncordon":
      case "node.mark":
      case "node.delete":
      case "addon.apply":
        return this.#inKubernetes(step, desired, world);
      case "talos.configure":
      case "talos.reconfigure":
      case "talos.reboot":
      case "talos.reset":
      case "talos.upgrade":
      case "etcd.bootstrap":
      case "etcd.snapshot":
      case "etcd.leave":
      case "etcd.remove":
        return this.#inside(step, desired, world);
    }
  }

  async #onPlatform(
    step: GuestStep,
    desired: Desired,
    world: World,
    tell: (note: string) => void,
  ): Promise<void> {
    const driver = this.#deps.drivers.get(step.provider);
    if (driver === undefined) throw new AppError("internal.error", `${step.provider} is not open`);
    switch (step.kind) {
      case "image.ensure": {
        const { subject: name, url, content, host, storage } = step;
        const source = await this.#deps.imageSource({ name, url, content }, tell);
        return "path" in source
          ? driver.uploadImage(host, storage, source)
          : driver.downloadImage(host, storage, source).catch((err: unknown) => {
              throw refusedImage(err, source);
            });
      }
      case "template.create":
      case "balancer.create":
      case "guest.create":
        return driver.createGuest(step.place, step.config);
      case "template.seal":
        return driver.makeTemplate(step.place);
      case "template.delete":
        await refuseOtherTemplates(driver, desired, step.subject, step.place);
        return driver.deleteGuest(step.place);
      case "guest.clone":
        return this.#clone(driver, step);
      case "guest.resize":
        return driver.resizeDisk(step.place, step.disk, step.gib);
      case "balancer.change":
      case "guest.change":
        return driver.changeGuest(
          step.place,
          Object.fromEntries(step.changes.map(({ key, to }) => [key, to])),
        );
      case "balancer.start":
      case "guest.start":
        return driver.start(step.place);
      case "balancer.stop":
        await refuseOtherBalancers(driver, desired, step.subject, step.place);
        return driver.stop(step.place);
      case "balancer.delete":
        await refuseOtherBalancers(driver, desired, step.subject, step.place);
        return driver.deleteGuest(step.place);
      case "guest.stop":
        await refuseOthers(driver, desired, step.subject, step.place);
        return step.comesBack === true
          ? shutDown({ driver, ...this.#asked(desired, world, step.subject) }, step.place)
          : driver.stop(step.place);
      case "guest.delete":
        await refuseOthers(driver, desired, step.subject, step.place);
        // It is ours, and the plan that was agreed to says that it goes.
        if ((await driver.guestConfig(step.place))["protection"] === "1")
          await driver.changeGuest(step.place, { protection: "0" });
        return driver.deleteGuest(step.place);
    }
  }

  /** One after another: a platform locks what is cloned. */
  #clone(driver: Driver, { from, place, hostname, mark, isFull, pool }: GuestClone): Promise<void> {
    const request = { name: hostname, description: mark, isFull, pool };
    const cloned = this.#cloned.then(() => driver.cloneGuest(from, place, request));
    this.#cloned = cloned.catch(() => undefined);
    return cloned;
  }

  async #inside(
    step: Exclude<InsideStep, { kind: "talos.reach" | "etcd.join" }>,
    desired: Desired,
    world: World,
  ): Promise<void> {
    const { subject } = step;
    switch (step.kind) {
      case "talos.configure":
        return this.#configure(machineOf(desired, subject), desired.cluster.image.boot === "iso");
      case "talos.reconfigure":
        return this.#apply(desired, world, subject, step.impact === "safe" ? "no-reboot" : "reboot");
      case "talos.upgrade":
        return upgradeMachine(this.#upgradeDeps(desired, world, subject), desired, step);
      case "talos.reboot":
        return this.#member(desired, world, subject, (client) => client.reboot());
      case "talos.reset": {
        const { uuid } = machineOf(desired, subject);
        return this.#member(desired, world, subject, async (client) => {
          await refuseForeign(client, uuid, subject);
          await client.reset(true);
        });
      }
      case "etcd.bootstrap":
        this.#deps.records.bootstrapping(subject);
        return this.#member(desired, world, subject, async (client) => {
          try {
            await client.bootstrap();
          } catch (err) {
            // It was done, and whoever did it was stopped before he could say so.
            if (!isAppError(err, "object.exists")) throw err;
          }
        });
      case "etcd.snapshot":
        return this.#member(desired, world, subject, async (client) =>
          this.#deps.keepSnapshot(await client.etcdSnapshot()),
        );
      case "etcd.leave":
        return this.#member(desired, world, subject, (client) => client.leaveEtcd());
      case "etcd.remove": {
        const machine = [...world.machines.values()].find(({ hostname }) => hostname === subject)?.name;
        const other = healthyControlPlane(world, machine);
        if (other === undefined)
          throw new AppError("node.unavailable", `no control plane is left to remove ${subject}`);
        return this.#member(desired, world, other, (client) => client.removeMember(step.member));
      }
    }
  }

  async #inKubernetes(
    step: Exclude<KubernetesStep, { kind: "kubernetes.reach" | "node.ready" }>,
    desired: Desired,
    world: World,
  ): Promise<void> {
    const { kubernetes, clock } = this.#deps;
    const hostname = world.machines.get(step.subject)?.hostname ?? step.subject;
    switch (step.kind) {
      case "kubernetes.components": {
        const kubelet = configured(world.machines.get(step.subject))?.config.kubelet;
        return this.#apply(desired, world, step.subject, "no-reboot", { components: step.to, kubelet });
      }
      case "kubernetes.kubelet": {
        const components = wantedKubernetes(desired);
        return this.#apply(desired, world, step.subject, "no-reboot", { components, kubelet: step.to });
      }
      case "node.drain": {
        await readyUpgrade(this.#upgradeDeps(desired, world, step.subject), desired, world, step.subject);
        const pool = desired.machines.find(({ name }) => name === step.subject)?.pool;
        const drain = desired.cluster.pools.find(({ name }) => name === pool)?.upgrade.drain;
        const timeoutMs = durationMs(drain?.timeout ?? "10m");
        return drainNode(kubernetes, clock, {
          node: hostname,
          policy: (drain?.policy ?? "strict") as DrainPolicy,
          timeoutMs,
        });
      }
      case "node.uncordon":
        return kubernetes.setCordon(hostname, false);
      case "node.mark":
        return kubernetes.markNode(hostname, wantedMarks(machineOf(desired, step.subject)));
      case "node.delete":
        return kubernetes.deleteNode(hostname);
      case "addon.apply":
        return this.#deps.applyAddon(kubernetes, step.subject);
    }
  }

  /** Only the machine that was asked who it is gets the cluster's secrets. */
  async #configure(machine: Machine, isInstalling: boolean): Promise<void> {
    const { talos, documents, records } = this.#deps;
    const address = machine.addresses[0] ?? "";
    const client = await talos.stranger({ name: machine.name, address });
    try {
      await refuseForeign(client, machine.uuid, `${machine.name} at ${address}`);
      if (isInstalling) await refuseOtherDisk(client, machine);
      records.configured();
      await client.apply(writeConfig(documents(machine)), "auto");
    } finally {
      client.close();
    }
  }

  #apply(
    desired: Desired,
    world: World,
    name: string,
    mode: "no-reboot" | "reboot",
    versions: Pick<SeenConfig, "kubelet" | "components"> = configured(world.machines.get(name))?.config ??
      NONE,
  ): Promise<void> {
    const text = writeConfig(withVersions(this.#deps.documents(machineOf(desired, name)), versions));
    return this.#member(desired, world, name, async (client) => {
      await client.apply(text, mode);
    });
  }

  #upgradeDeps(desired: Desired, world: World, name: string): UpgradeDeps {
    const { clock, registerImage } = this.#deps;
    return { clock, registerImage, member: (work) => this.#member(desired, world, name, work) };
  }

  #asked(desired: Desired, world: World, name: string): Pick<ShutDownDeps, "clock" | "ask"> {
    const { uuid } = machineOf(desired, name);
    const ask = (): Promise<void> =>
      this.#member(desired, world, name, async (client) => {
        await refuseForeign(client, uuid, name);
        await client.shutdown();
      });
    return { clock: this.#deps.clock, ask };
  }

  async #member(
    desired: Desired,
    world: World,
    name: string,
    work: (client: TalosMachine) => Promise<void>,
  ): Promise<void> {
    const machine = desired.machines.find((each) => each.name === name);
    const seen = world.machines.get(name);
    const known = seen === undefined ? "" : addressOf(seen);
    const address = machine === undefined || seen === undefined ? known : reachedAt(machine, seen);
    const client = await this.#deps.talos.member({ name, address });
    try {
      await work(client);
    } finally {
      client.close();
    }
  }
}

const NONE = { kubelet: undefined, components: undefined };

function machineOf({ machines }: Desired, name: string): Machine {
  const machine = machines.find((each) => each.name === name);
  if (machine !== undefined) return machine;
  throw new AppError("internal.error", `${name} is not in the file`);
}

/** The machine itself says which it is. */
async function refuseForeign(client: TalosMachine, uuid: string, what: string): Promise<void> {
  const found = await uuidOf(client);
  if (found === uuid) return;
  throw new AppError("object.conflict", `who answers for ${what} is the machine ${found}`, {
    data: { finding: "machine-foreign" },
  });
}
