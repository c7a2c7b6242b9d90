// A cluster as it really is, apart from what anybody sees of it: disks, who is a member of etcd, who runs. Steps act on
// it, accidents happen to it, and it notices when a step of ours does what must never be done.
import type { Machine } from "../cluster/machine.ts";
import type { Desired } from "../engine/desired.ts";
import type { SeenMachine, SeenMember, SeenTalos, SeenTemplate, World } from "../engine/world.ts";
import { SYSTEM_DISK } from "../plan/guest-config.ts";
import type { GuestClone, Step, TemplateStep } from "../plan/plan-steps.ts";
import { cloneMark, templateUuid } from "../cluster/templates.ts";
import { machineUuid } from "../machine/identity.ts";

interface ModelMachine {
  readonly name: string;
  readonly role: "controlplane" | "worker";
  provider: string;
  place: { readonly host: string; readonly vmid: number };
  config: Readonly<Record<string, string>>;
  isRunning: boolean;
  isReachable: boolean;
  /** The platform shows nothing of it to whoever asks. */
  isHidden: boolean;
  /** The platform shows that it is there, and nothing more. */
  isUnread: boolean;
  /** What is on the disk. */
  isConfigured: boolean;
  hasEtcd: boolean;
  hasLeft: boolean;
  version: string;
  rest: string;
  kubelet: string;
}

export class ModelWorld {
  readonly machines = new Map<string, ModelMachine>();
  readonly members = new Map<string, string>();
  readonly nodes = new Map<string, { isOurCordon: boolean; isCordoned: boolean }>();
  readonly broken: string[] = [];
  readonly images: string[] = [];
  templates: SeenTemplate[] = [];
  /** Machines that were ever made, as they are written down. */
  formerly = new Map<string, SeenMachine["role"]>();
  /** VMIDs of guests that are none of ours. */
  readonly strangers = new Set<number>();
  now = 0;
  snapshotAt: number | undefined;
  #id = 0;

  get hasQuorum(): boolean {
    const up = this.#up();
    return up > 0 && up >= Math.floor(this.members.size / 2) + 1;
  }

  #up(): number {
    return [...this.members.keys()].filter((name) => this.#isUp(name)).length;
  }

  #isUp(name: string): boolean {
    const machine = this.machines.get(name);
    return machine?.isRunning === true && machine.hasEtcd && machine.isReachable;
  }

  /** Not wanted, and no node tells of them: they were not shown for a while. Nobody keeps them up to date, and who wants them again
   * makes them anew. */
  readonly #nobodys = new WeakSet<ModelMachine>();

  /** What an observer gets to see of it. */
  see(desired: Desired): World {
    const seen = new Map<string, SeenMachine>();
    for (const { name, hostname, role } of desired.machines)
      seen.set(name, { name, hostname, role, guest: undefined, talos: { state: "off" } });
    for (const [name, role] of this.formerly) {
      if (!seen.has(name) && this.#isToldOf(name))
        seen.set(name, { name, hostname: name, role, guest: undefined, talos: { state: "off" } });
    }
    for (const machine of this.machines.values()) seen.set(machine.name, this.#seenMachine(machine, desired));
    const kubernetes = this.hasQuorum
      ? {
          addons: new Map(),
          nodes: [...this.nodes].map(([name, node]) => ({
            name,
            ...node,
            isReady:
              this.machines.get(name)?.isRunning === true && this.machines.get(name)?.isReachable === true,
            kubelet: this.machines.get(name)?.kubelet ?? "",
            evictable: 0,
          })),
        }
      : undefined;
    const { now, snapshotAt } = this;
    return {
      now,
      images: new Map([["pve", this.images]]),
      sharingImages: new Set(["pve"]),
      templates: this.#seenTemplates(),
      vmids: new Map([["pve", this.#vmids()]]),
      sharingDisks: new Set(["pve"]),
      machines: seen,
      kubernetes,
      snapshotAt,
    };
  }

  #seenMachine(machine: ModelMachine, desired: Desired): SeenMachine {
    const { name, role, provider, place, isRunning, isReachable, config, isHidden, isUnread } = machine;
    const of = { name, hostname: name, role };
    if (isHidden) {
      // Asked for only where others tell of it.
      const isAnswering = this.#isToldOf(name) && isRunning && isReachable;
      return { ...of, guest: undefined, talos: { state: "off" }, ...(isAnswering ? { isHidden } : {}) };
    }
    if (isUnread) {
      const guest = { provider, place, isRunning: false, config: {}, unread: "its node is away" };
      return { ...of, guest, talos: { state: "off" } };
    }
    return { ...of, guest: { provider, place, isRunning, config }, talos: this.#talos(machine, desired) };
  }

  #isToldOf(name: string): boolean {
    return this.hasQuorum && (this.members.has(name) || this.nodes.has(name));
  }

  #talos(machine: ModelMachine, desired: Desired): SeenTalos {
    if (!machine.isRunning) return { state: "off" };
    if (!machine.isReachable) return { state: "silent", reason: "no route" };
    const { version, name, role, rest, kubelet } = machine;
    if (!machine.isConfigured) return { state: "maintenance", version };
    this.#joinWhenPossible(machine);
    const id = this.members.get(name);
    const members = [...this.members].map(([hostname, each]): SeenMember => ({
      id: each,
      hostname,
      isLearner: false,
    }));
    const isMember = machine.hasEtcd && id !== undefined;
    // Without a quorum etcd answers nothing.
    const etcd =
      isMember && this.hasQuorum
        ? {
            id,
            isLeader: members.find(({ hostname }) => this.#isUp(hostname))?.id === id,
            problems: [],
            members,
          }
        : undefined;
    return {
      state: "configured",
      version,
      isReady: role === "worker" || etcd !== undefined,
      unmet: [],
      config: { rest, kubelet, components: role === "controlplane" ? kubelet : undefined },
      change: { needsReboot: this.#takesReboot(machine, desired), differences: [] },
      etcd,
      etcdService:
        role === "worker" ? "" : machine.hasEtcd ? "Running" : machine.hasLeft ? "Finished" : "Preparing",
    };
  }

  #joinWhenPossible(machine: ModelMachine): void {
    const { name, role, hasEtcd, hasLeft } = machine;
    if (role !== "controlplane" || hasEtcd || hasLeft || !this.hasQuorum || this.members.has(name)) return;
    machine.hasEtcd = true;
    this.members.set(name, String((this.#id += 1)));
    this.nodes.set(name, { isCordoned: false, isOurCordon: false });
  }

  /** Throws when the machine it is about cannot be reached. */
  act(step: Step, desired: Desired): void {
    const before = this.hasQuorum;
    this.#act(step, desired);
    if (before && !this.hasQuorum && this.members.size > 1)
      this.broken.push(`${step.kind} ${step.subject} broke the quorum`);
    const wanted = new Set(desired.machines.map(({ name }) => name));
    for (const machine of this.machines.values())
      if (!wanted.has(machine.name) && !this.#isToldOf(machine.name)) this.#nobodys.add(machine);
    const phases = [...this.machines.values()]
      .filter((machine) => machine.isConfigured && !this.#nobodys.has(machine))
      .map(({ rest }) => Number(/phase (\d+)$/.exec(rest)?.[1] ?? 0));
    if (Math.max(...phases) - Math.min(...phases) > 1)
      this.broken.push(`${step.kind} ${step.subject} left a machine two phases of a rotation behind`);
    if (before && this.members.size === 0) this.broken.push(`${step.kind} ${step.subject} ended etcd`);
  }

  #act(step: Step, desired: Desired): void {
    const machine = this.machines.get(step.subject);
    if (step.kind.startsWith("guest.") && machine?.isUnread === true) throw new Error("its node is away");
    this.#lookAtPods(step, desired);
    switch (step.kind) {
      case "template.create":
      case "template.seal":
      case "template.delete":
        this.#template(step, desired);
        return;
      case "balancer.create":
      case "balancer.change":
      case "balancer.start":
      case "balancer.stop":
      case "balancer.delete":
        this.broken.push(`${step.kind} ${step.subject}: no file of the model wants a load balancer`);
        return;
      case "guest.clone":
        if (machine !== undefined) throw new Error("already exists");
        this.#clone(step, desired);
        return;
      case "guest.create":
        if (machine !== undefined) throw new Error("already exists");
        this.#create(step.subject, step.place, step.config, desired);
        return;
      case "guest.resize":
        if (machine !== undefined)
          machine.config = { ...machine.config, [SYSTEM_DISK]: `a:b,size=${step.gib}G` };
        return;
      case "guest.change":
        if (machine !== undefined)
          machine.config = {
            ...machine.config,
            ...Object.fromEntries(step.changes.map(({ key, to }) => [key, to])),
          };
        return;
      case "guest.start":
        if (machine !== undefined) this.#boot(machine);
        return;
      case "guest.stop":
        if (machine !== undefined) machine.isRunning = false;
        return;
      case "guest.delete":
        this.#delete(step.subject, desired);
        return;
      case "etcd.bootstrap":
        this.#bootstrap(this.#reached(step.subject));
        return;
      case "etcd.remove": {
        if (!this.hasQuorum) throw new Error("no leader");
        const isLeaving = !desired.machines.some(({ name }) => name === step.subject);
        const isAgreed = isLeaving || desired.replacing[0] === step.subject;
        if (this.#isUp(step.subject) && (!isAgreed || machine?.isHidden === true))
          this.broken.push(`${step.subject} lost its membership while it ran`);
        this.members.delete(step.subject);
        return;
      }
      case "etcd.leave": {
        const leaving = this.#reached(step.subject);
        if (!this.hasQuorum) throw new Error("no leader");
        this.members.delete(leaving.name);
        Object.assign(leaving, { hasEtcd: false, hasLeft: true });
        return;
      }
      case "etcd.snapshot":
        this.snapshotAt = this.now;
        return;
      case "talos.configure":
        this.#configure(this.#reached(step.subject), desired);
        return;
      case "talos.reboot":
        this.#downAndUp(this.#reached(step.subject), step);
        return;
      case "talos.reset":
        this.#reset(this.#reached(step.subject), desired);
        return;
      case "talos.upgrade":
        this.#reached(step.subject).version = step.to;
        this.#downAndUp(this.#reached(step.subject), step);
        return;
      case "talos.reconfigure": {
        const reached = this.#reached(step.subject);
        if (step.impact === "safe" && this.#takesReboot(reached, desired))
          throw new Error("it needs a reboot");
        reached.rest = this.#wanted(step.subject, desired)?.rest ?? "";
        if (step.impact === "disruptive") this.#downAndUp(reached, step);
        return;
      }
      case "kubernetes.kubelet":
      case "kubernetes.components":
        this.#reached(step.subject).kubelet = step.to;
        return;
      case "node.drain":
        this.nodes.set(step.subject, { isCordoned: true, isOurCordon: true });
        return;
      case "node.uncordon":
        this.nodes.set(step.subject, { isCordoned: false, isOurCordon: false });
        return;
      case "node.delete":
        this.nodes.delete(step.subject);
        return;
      case "talos.reach":
      case "etcd.join":
      case "node.ready":
        this.#waitFor(step);
        return;
      case "image.ensure":
        this.images.push(`${step.storage}:${step.content}/${step.subject}`);
        return;
      case "kubernetes.reach":
      case "node.mark":
      case "addon.apply":
      case "record.replaced":
      case "record.reset":
      case "record.rotated":
    }
  }

  /** Of a machine that stays: whoever goes away was emptied, and no more than the pool allows are away for it. */
  #lookAtPods({ kind, subject, impact }: Step, desired: Desired): void {
    const machine = desired.machines.find(({ name }) => name === subject);
    if (machine === undefined || [desired.replacing[0], desired.resetting[0]].includes(subject)) return;
    const goes =
      ["guest.stop", "talos.upgrade", "talos.reconfigure"].includes(kind) && impact === "disruptive";
    if (goes && this.nodes.get(subject)?.isCordoned === false)
      this.broken.push(`${kind} ${subject} takes its pods`);
    const pool = desired.cluster.pools.find(({ name }) => name === machine.pool);
    if (kind !== "node.drain" || pool === undefined || this.#isAway(subject)) return;
    const away = desired.machines.filter((each) => each.pool === pool.name && this.#isAway(each.name));
    if (away.length >= pool.upgrade.maxUnavailable)
      this.broken.push(`${kind} ${subject} while ${away.map(({ name }) => name).join()} cannot take pods`);
  }

  #isAway(name: string): boolean {
    const machine = this.machines.get(name);
    return machine?.isRunning !== true || !machine.isReachable || this.nodes.get(name)?.isCordoned === true;
  }

  #takesReboot({ name, rest }: ModelMachine, desired: Desired): boolean {
    const heavy = (text = ""): string => /heavy \d+/.exec(text)?.[0] ?? "";
    return heavy(rest) !== heavy(this.#wanted(name, desired)?.rest);
  }

  /** Clones that are gone, whoever deleted them, read from nothing. */
  #seenTemplates(): readonly SeenTemplate[] {
    const vmids = this.#vmids();
    return this.templates.map((each) => ({ ...each, clones: each.clones.filter((vmid) => vmids.has(vmid)) }));
  }

  #vmids(): ReadonlySet<number> {
    const guests = [...this.machines.values(), ...this.templates];
    return new Set([...this.strangers, ...guests.map(({ place }) => place.vmid)]);
  }

  #template(step: TemplateStep, desired: Desired): void {
    const { subject: name, place, provider } = step;
    const at = this.templates.findIndex((each) => each.place.vmid === place.vmid);
    const found = this.templates[at];
    if (step.kind === "template.create") {
      if (this.#vmids().has(place.vmid)) throw new Error("already exists");
      const config = { ...step.config, [SYSTEM_DISK]: "a:base-1-disk-0,size=2G" };
      this.templates.push({ name, provider, place, isSealed: false, config, clones: [] });
    } else if (found === undefined) throw new Error("does not exist");
    else if (step.kind === "template.seal") this.templates[at] = { ...found, isSealed: true };
    else {
      const seen = this.#seenTemplates()[at];
      if (seen !== undefined && seen.clones.length > 0)
        this.broken.push(`${name} was deleted while clones read from it`);
      const uuid = templateUuid(desired.cluster.metadata.name, name);
      if (found.config["smbios1"] !== `uuid=${uuid}`) this.broken.push(`template ${name} is not ours`);
      this.templates.splice(at, 1);
    }
  }

  #clone({ from, place, subject, isFull, mark }: GuestClone, desired: Desired): void {
    const at = this.templates.findIndex((each) => each.place.vmid === from.vmid && each.isSealed);
    const found = this.templates[at];
    if (found === undefined) throw new Error("no such template");
    if (!isFull) this.templates[at] = { ...found, clones: [...found.clones, place.vmid] };
    this.#create(subject, place, { ...found.config, smbios1: "uuid=", description: mark }, desired);
  }

  /** Only whoever is to be reset and has nothing to lose but itself. */
  #reset(machine: ModelMachine, desired: Desired): void {
    const { name } = machine;
    if (desired.resetting[0] !== name) this.broken.push(`${name} was reset and nobody asked for it`);
    if (machine.hasEtcd && this.members.has(name)) this.broken.push(`${name} was reset as a member`);
    Object.assign(machine, { isConfigured: false, hasEtcd: false, hasLeft: false, rest: "", kubelet: "" });
  }

  /** While it boots, its member is away. */
  #downAndUp(machine: ModelMachine, step: Step): void {
    machine.isRunning = false;
    if (machine.hasEtcd && this.members.size > 1 && !this.hasQuorum)
      this.broken.push(`${step.kind} ${step.subject} broke the quorum while it booted`);
    this.#boot(machine);
  }

  #waitFor({ kind, subject }: Step): void {
    const machine = this.#reached(subject);
    if (kind === "etcd.join") this.#joinWhenPossible(machine);
    if (kind === "etcd.join" && !(machine.hasEtcd && this.members.has(subject))) throw new Error("timeout");
    if (kind === "node.ready" && this.hasQuorum && machine.isConfigured && !this.nodes.has(subject))
      this.nodes.set(subject, { isCordoned: false, isOurCordon: false });
  }

  #create(
    name: string,
    place: { host: string; vmid: number },
    config: Readonly<Record<string, string>>,
    desired: Desired,
  ): void {
    const machine = desired.machines.find((each) => each.name === name);
    this.formerly.set(name, machine?.role ?? "worker");
    this.machines.set(name, {
      name,
      role: machine?.role ?? "worker",
      provider: "pve",
      place,
      config: { ...config, [SYSTEM_DISK]: "a:b,size=2G" },
      isRunning: false,
      isReachable: true,
      isHidden: false,
      isUnread: false,
      isConfigured: false,
      hasEtcd: false,
      hasLeft: false,
      version: desired.cluster.versions.talos,
      rest: "",
      kubelet: "",
    });
  }

  #configure(machine: ModelMachine, desired: Desired): void {
    const wanted = this.#wanted(machine.name, desired);
    Object.assign(machine, { isConfigured: true, rest: wanted?.rest ?? "", kubelet: wanted?.kubelet ?? "" });
    if (machine.role === "worker" && this.hasQuorum)
      this.nodes.set(machine.name, { isCordoned: false, isOurCordon: false });
  }

  #bootstrap(machine: ModelMachine): void {
    if (machine.hasEtcd) return;
    const other = [...this.machines.values()].find(({ hasEtcd }) => hasEtcd);
    if (other !== undefined) this.broken.push(`etcd was begun on ${machine.name} while ${other.name} has it`);
    this.members.clear();
    machine.hasEtcd = true;
    this.members.set(machine.name, String((this.#id += 1)));
    for (const { name, isConfigured } of this.machines.values())
      if (isConfigured) this.nodes.set(name, { isCordoned: false, isOurCordon: false });
  }

  #delete(name: string, desired: Desired): void {
    const machine = this.machines.get(name);
    if (machine === undefined) return;
    const uuid = machineUuid(desired.cluster.metadata.name, name);
    const { smbios1, description } = machine.config;
    const isOurs = smbios1 === `uuid=${uuid}` || description === cloneMark(uuid);
    const isWanted = desired.machines.some((each) => each.name === name) && desired.replacing[0] !== name;
    if (!isOurs) this.broken.push(`${name} was deleted and is not ours`);
    if (isWanted) this.broken.push(`${name} was deleted and is wanted`);
    if (machine.hasEtcd && this.members.has(name)) this.broken.push(`${name} was deleted as a member`);
    this.machines.delete(name);
    this.templates = this.templates.map((each) => ({
      ...each,
      clones: each.clones.filter((vmid) => vmid !== machine.place.vmid),
    }));
  }

  #boot(machine: ModelMachine): void {
    Object.assign(machine, { isRunning: true, hasLeft: false });
    if (machine.hasEtcd && !this.members.has(machine.name)) machine.hasEtcd = this.members.size > 0;
  }

  #reached(name: string): ModelMachine {
    const machine = this.machines.get(name);
    if (machine === undefined || !machine.isRunning || !machine.isReachable)
      throw new Error(`${name} is not reached`);
    return machine;
  }

  #wanted(name: string, desired: Desired) {
    const machine: Machine | undefined = desired.machines.find((each) => each.name === name);
    return machine === undefined ? undefined : desired.config(machine);
  }
}
