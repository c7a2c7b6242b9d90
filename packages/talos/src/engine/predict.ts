// The world as a step would leave it. Plans are made with it, and a step is done when what was seen agrees with it.
import { given } from "@gpve/contracts/given.ts";
import { imageVolume } from "../image/image-file.ts";
import { wantedMarks } from "../kubernetes/node-marks.ts";
import { SYSTEM_DISK } from "../plan/guest-config.ts";
import type {
  BalancerStep,
  GuestClone,
  GuestStep,
  InsideStep,
  KubernetesStep,
  Step,
  TemplateStep,
} from "../plan/plan-steps.ts";
import { type Desired, wantedTalos } from "./desired.ts";
import { afterBalancerStep, afterTemplateStep, madeDisk } from "./predict-platform.ts";
import { etcdHealth } from "./quorum.ts";
import {
  type Configured,
  configured,
  controlPlanes,
  imagePlace,
  type SeenGuest,
  type SeenKubernetes,
  type SeenMachine,
  type SeenMember,
  type SeenNode,
  type World,
} from "./world.ts";

export function predict(desired: Desired, world: World, step: Step): World {
  switch (step.kind) {
    case "template.create":
    case "template.seal":
    case "template.delete":
      return afterTemplateStep(world, step);
    case "balancer.create":
    case "balancer.change":
    case "balancer.start":
    case "balancer.stop":
    case "balancer.delete":
      return { ...world, balancer: afterBalancerStep(world.balancer, step) };
    case "image.ensure":
    case "guest.clone":
    case "guest.create":
    case "guest.resize":
    case "guest.change":
    case "guest.start":
    case "guest.stop":
    case "guest.delete":
      return afterGuestStep(world, step);
    case "talos.reach":
    case "talos.configure":
    case "talos.reconfigure":
    case "talos.reboot":
    case "talos.reset":
    case "talos.upgrade":
    case "etcd.bootstrap":
    case "etcd.join":
    case "etcd.snapshot":
    case "etcd.leave":
    case "etcd.remove":
      return afterInsideStep(desired, world, step);
    case "kubernetes.reach":
    case "kubernetes.components":
    case "kubernetes.kubelet":
    case "node.ready":
    case "node.drain":
    case "node.uncordon":
    case "node.mark":
    case "node.delete":
    case "addon.apply":
      return afterKubernetesStep(desired, world, step);
    case "record.replaced":
    case "record.reset":
    case "record.rotated":
      // It is desired that changes; see `afterRecord`.
      return world;
  }
}

/** What is wanted after a step; only records change it. */
export function afterRecord(desired: Desired, step: Step): Desired {
  if (step.kind === "record.replaced")
    return { ...desired, replacing: desired.replacing.filter((name) => name !== step.subject) };
  if (step.kind === "record.reset")
    return { ...desired, resetting: desired.resetting.filter((name) => name !== step.subject) };
  if (step.kind === "record.rotated") return { ...desired, ...desired.rotation?.next() };
  if (step.kind === "etcd.bootstrap")
    return { ...desired, beginning: { machine: step.subject, doneAt: "now" } };
  return desired;
}

/** As the template is, until it is changed. */
function afterClone(world: World, { provider, place, subject, from, isFull }: GuestClone): World {
  const template = world.templates.find(
    (each) => each.provider === provider && each.place.vmid === from.vmid,
  );
  const templates = world.templates.map((each) =>
    each === template && !isFull ? { ...each, clones: [...each.clones, place.vmid] } : each,
  );
  const config = template?.config ?? {};
  return withMachine({ ...world, templates }, subject, ({ before: _gone, ...seen }) => ({
    ...seen,
    guest: { provider, place, isRunning: false, config },
    talos: { state: "off" },
  }));
}

function afterGuestStep(world: World, step: Exclude<GuestStep, TemplateStep | BalancerStep>): World {
  if (step.kind === "image.ensure") {
    const place = imagePlace(world, step.provider, step.host);
    const known = world.images.get(place) ?? [];
    const volume = imageVolume(step.storage, { content: step.content, name: step.subject });
    const images = new Map(world.images).set(place, [...known, volume]);
    return { ...world, images };
  }
  const guest = (change: (guest: SeenGuest) => SeenGuest, talos?: SeenMachine["talos"]): World =>
    withMachine(world, step.subject, (seen) => ({
      ...seen,
      guest: seen.guest === undefined ? undefined : change(seen.guest),
      talos: talos ?? seen.talos,
      ...(seen.talos.state === "configured" ? { before: seen.talos } : {}),
    }));
  switch (step.kind) {
    case "guest.clone":
      return afterClone(world, step);
    case "guest.create":
      return withMachine(world, step.subject, ({ before: _gone, ...seen }) => ({
        ...seen,
        guest: {
          provider: step.provider,
          place: step.place,
          isRunning: false,
          config: { ...step.config, [SYSTEM_DISK]: madeDisk(step.config[SYSTEM_DISK] ?? "") },
        },
        talos: { state: "off" },
      }));
    case "guest.resize":
      return guest((old) => ({
        ...old,
        config: {
          ...old.config,
          [step.disk]: `${(old.config[step.disk] ?? "").replace(/,size=[^,]*/, "")},size=${step.gib}G`,
        },
      }));
    case "guest.change":
      return guest((old) => ({
        ...old,
        config: { ...old.config, ...Object.fromEntries(step.changes.map(({ key, to }) => [key, to])) },
      }));
    case "guest.start":
      return withNodeReady(
        guest((old) => ({ ...old, isRunning: true }), { state: "silent", reason: "it starts" }),
        step.subject,
        false,
      );
    case "guest.stop":
      return withNodeReady(
        guest((old) => ({ ...old, isRunning: false }), { state: "off" }),
        step.subject,
        false,
      );
    case "guest.delete":
      return withMachine(withoutClone(world, step), step.subject, (seen) => ({
        ...seen,
        guest: undefined,
        talos: { state: "off" },
      }));
  }
}

/** Who is gone reads from nothing. */
function withoutClone(
  world: World,
  { provider, place }: Extract<GuestStep, { kind: "guest.delete" }>,
): World {
  const templates = world.templates.map((each) =>
    each.provider === provider
      ? { ...each, clones: each.clones.filter((vmid) => vmid !== place.vmid) }
      : each,
  );
  return { ...world, templates };
}

function afterInsideStep(desired: Desired, world: World, step: InsideStep): World {
  const { subject } = step;
  switch (step.kind) {
    case "talos.reach":
      return afterReach(desired, world, subject);
    case "talos.configure":
      return withMachine(world, subject, (seen) => ({
        ...seen,
        talos: configuredAs(desired, seen),
      }));
    case "talos.reconfigure":
      return withTalos(world, subject, ({ change: _done, ...talos }) => ({
        ...talos,
        config: { ...talos.config, rest: wantedConfig(desired, subject).rest },
      }));
    case "talos.reboot":
      return withTalos(world, subject, (talos) => ({ ...talos, etcdService: "Preparing" }));
    case "talos.reset":
      return withNodeReady(
        withMachine(world, subject, ({ before: _gone, ...seen }) => ({
          ...seen,
          talos: { state: "maintenance", version: configured(seen)?.version ?? wantedTalos(desired) },
        })),
        subject,
        false,
      );
    case "talos.upgrade":
      return withTalos(world, subject, (talos) => ({
        ...talos,
        version: step.to,
        ...given({ schematic: step.schematic?.to }),
      }));
    case "etcd.bootstrap":
    case "etcd.join":
      return withMember(world, subject);
    case "etcd.snapshot":
      return { ...world, snapshotAt: world.now };
    case "etcd.leave": {
      const hostname = world.machines.get(subject)?.hostname ?? subject;
      return withoutMember(world, ({ hostname: each }) => each === hostname);
    }
    case "etcd.remove":
      return withoutMember(world, ({ id }) => id === step.member);
  }
}

function afterKubernetesStep(desired: Desired, world: World, step: KubernetesStep): World {
  const { subject } = step;
  const hostname = world.machines.get(subject)?.hostname ?? subject;
  const node = (change: (node: SeenNode) => SeenNode): World =>
    withKubernetes(world, (kubernetes) => ({
      ...kubernetes,
      nodes: kubernetes.nodes.map((each) => (each.name === hostname ? change(each) : each)),
    }));
  switch (step.kind) {
    case "kubernetes.reach":
      return { ...world, kubernetes: world.kubernetes ?? { nodes: [], addons: new Map() } };
    case "kubernetes.components":
      return withTalos(world, subject, (talos) => ({
        ...talos,
        config: { ...talos.config, components: step.to },
      }));
    case "kubernetes.kubelet": {
      const next = node((old) => ({ ...old, kubelet: step.to }));
      return withTalos(next, subject, (talos) => ({
        ...talos,
        config: { ...talos.config, kubelet: step.to },
      }));
    }
    case "node.ready":
      return withKubernetes(world, (kubernetes) => {
        const kubelet = configured(world.machines.get(subject))?.config.kubelet ?? "";
        const known = kubernetes.nodes.find(({ name }) => name === hostname);
        const made = { name: hostname, isCordoned: false, isOurCordon: false, kubelet, evictable: 0 };
        const others = kubernetes.nodes.filter(({ name }) => name !== hostname);
        return { ...kubernetes, nodes: [...others, { ...made, ...known, isReady: true }] };
      });
    case "node.drain":
      return node((old) => ({ ...old, isCordoned: true, isOurCordon: true, evictable: 0 }));
    case "node.uncordon":
      return node((old) => ({ ...old, isCordoned: false, isOurCordon: false }));
    case "node.mark": {
      const machine = desired.machines.find(({ name }) => name === subject);
      const wanted = machine === undefined ? undefined : wantedMarks(machine);
      return wanted === undefined ? world : node((old) => ({ ...old, marks: { ...wanted, own: wanted } }));
    }
    case "node.delete":
      return withKubernetes(world, (kubernetes) => ({
        ...kubernetes,
        nodes: kubernetes.nodes.filter(({ name }) => name !== hostname),
      }));
    case "addon.apply":
      return withKubernetes(world, (kubernetes) => {
        const digest = desired.addons.find(({ name }) => name === subject)?.digest ?? "";
        return {
          ...kubernetes,
          addons: new Map(kubernetes.addons).set(subject, { digest, isHealthy: true }),
        };
      });
  }
}

/** A disk that was configured before comes back as it was; a new one waits for its configuration. */
function afterReach(desired: Desired, world: World, name: string): World {
  return withMachine(world, name, (seen) => ({
    ...seen,
    talos: seen.before ?? { state: "maintenance", version: wantedTalos(desired) },
  }));
}

function wantedConfig(desired: Desired, name: string) {
  const machine = desired.machines.find((each) => each.name === name);
  return machine === undefined
    ? { rest: "", kubelet: undefined, components: undefined }
    : desired.config(machine);
}

/** Control planes are ready once they are members. */
function configuredAs(desired: Desired, seen: SeenMachine): Configured {
  return {
    state: "configured",
    version: seen.talos.state === "maintenance" ? seen.talos.version : wantedTalos(desired),
    isReady: seen.role === "worker",
    unmet: [],
    config: wantedConfig(desired, seen.name),
    etcd: undefined,
    etcdService: seen.role === "worker" ? "" : "Preparing",
  };
}

function withMachine(world: World, name: string, change: (seen: SeenMachine) => SeenMachine): World {
  const seen = world.machines.get(name);
  return seen === undefined ? world : { ...world, machines: new Map(world.machines).set(name, change(seen)) };
}

function withTalos(world: World, name: string, change: (talos: Configured) => Configured): World {
  return withMachine(world, name, (seen) =>
    seen.talos.state === "configured" ? { ...seen, talos: change(seen.talos) } : seen,
  );
}

function withKubernetes(world: World, change: (kubernetes: SeenKubernetes) => SeenKubernetes): World {
  return world.kubernetes === undefined ? world : { ...world, kubernetes: change(world.kubernetes) };
}

function withNodeReady(world: World, name: string, isReady: boolean): World {
  const hostname = world.machines.get(name)?.hostname ?? name;
  return withKubernetes(world, (kubernetes) => ({
    ...kubernetes,
    nodes: kubernetes.nodes.map((node) => (node.name === hostname ? { ...node, isReady } : node)),
  }));
}

/** All members see the new one. */
function withMember(world: World, name: string): World {
  const seen = world.machines.get(name);
  if (seen === undefined) return world;
  const known = etcdHealth(world)?.members ?? [];
  const old = known.find(({ hostname }) => hostname === seen.hostname);
  const member: SeenMember = { id: old?.id ?? `new-${name}`, hostname: seen.hostname, isLearner: false };
  const members = [...known.filter(({ hostname }) => hostname !== seen.hostname), member];
  const etcd = { id: member.id, isLeader: members.length === 1, problems: [], members };
  const joined = withTalos(world, name, (talos) => ({ ...talos, isReady: true, etcd }));
  return seenByAll(joined, members);
}

function withoutMember(world: World, isGone: (member: SeenMember) => boolean): World {
  const members = (etcdHealth(world)?.members ?? []).filter((member) => !isGone(member));
  return seenByAll(world, members);
}

function seenByAll(world: World, members: readonly SeenMember[]): World {
  let next = world;
  for (const { name } of controlPlanes(world)) {
    next = withTalos(next, name, (talos) => {
      if (talos.etcd === undefined) return talos;
      const isMember = members.some(({ id }) => id === talos.etcd?.id);
      return { ...talos, etcd: isMember ? { ...talos.etcd, members } : undefined };
    });
  }
  return next;
}
