// Whether what a step is for can be seen. Asked after every step, until it is or the time is over.
import { imageVolume } from "../../image/image-file.ts";
import { isMarked, wantedMarks } from "../../kubernetes/node-marks.ts";
import type { Step } from "../../plan/plan-steps.ts";
import { etcdHealth } from "../quorum.ts";
import type { Desired } from "../desired.ts";
import { configured, imagePlace, nodeOf, type SeenMachine, type World } from "../world.ts";

export function isDone(desired: Desired, world: World, step: Step): boolean {
  const seen = world.machines.get(step.subject);
  const talos = configured(seen);
  const node = seen === undefined ? undefined : nodeOf(world, seen);
  switch (step.kind) {
    case "image.ensure":
      return (
        world.images
          .get(imagePlace(world, step.provider, step.host))
          ?.includes(imageVolume(step.storage, { content: step.content, name: step.subject })) === true
      );
    case "template.create":
      return world.templates.some(({ name }) => name === step.subject);
    case "template.seal":
      return world.templates.some(({ name, isSealed }) => name === step.subject && isSealed);
    case "template.delete":
      return !world.templates.some(({ place }) => place.vmid === step.place.vmid);
    case "balancer.create":
      return world.balancer !== undefined;
    case "balancer.start":
      return world.balancer?.isRunning === true;
    case "balancer.stop":
      return world.balancer?.isRunning !== true;
    case "balancer.delete":
      return world.balancer === undefined;
    case "guest.clone":
    case "guest.create":
      return seen?.guest !== undefined;
    case "guest.start":
      return seen?.guest?.isRunning === true;
    case "guest.stop":
      return seen?.guest?.isRunning !== true;
    case "guest.delete":
      return seen?.guest === undefined;
    case "balancer.change":
    case "guest.resize":
    case "guest.change":
    case "record.replaced":
    case "record.reset":
    case "record.rotated":
      return true;
    case "talos.reach":
      // It went off meanwhile: the next look starts it.
      if (seen?.guest?.isRunning === false) return true;
      return seen !== undefined && seen.talos.state !== "silent" && seen.talos.state !== "off";
    case "talos.configure":
      return talos !== undefined;
    case "talos.reconfigure": {
      const machine = desired.machines.find(({ name }) => name === step.subject);
      const isSame = machine !== undefined && talos?.config.rest === desired.config(machine).rest;
      return isSame && isUp(seen);
    }
    case "talos.reboot":
      return talos !== undefined && talos.etcdService !== "Finished";
    case "talos.reset":
      return seen?.talos.state === "maintenance";
    case "talos.upgrade":
      return (
        talos?.version === step.to &&
        (step.schematic === undefined || talos.schematic === step.schematic.to) &&
        isUp(seen)
      );
    case "etcd.bootstrap":
    case "etcd.join":
      return talos?.etcd !== undefined && etcdHealth(world)?.healthy.has(talos.etcd.id) === true;
    case "etcd.snapshot":
      return world.snapshotAt !== undefined;
    case "etcd.leave":
      return isOut(world, seen?.hostname ?? step.subject);
    case "etcd.remove":
      return isOut(world, step.subject);
    case "kubernetes.reach":
      return world.kubernetes !== undefined;
    case "kubernetes.components":
      return talos?.config.components === step.to && isUp(seen) && world.kubernetes !== undefined;
    case "kubernetes.kubelet":
      return (
        talos?.config.kubelet === step.to &&
        (node === undefined || (node.kubelet === step.to && node.isReady))
      );
    case "node.ready":
      return node !== undefined && (node.isReady || desired.cluster.addons.cni.type === "none");
    case "node.drain":
      return node === undefined || (node.isCordoned && node.evictable === 0);
    case "node.uncordon":
      return node?.isCordoned !== true;
    case "node.mark": {
      const machine = desired.machines.find(({ name }) => name === step.subject);
      return node === undefined || machine === undefined || isMarked(wantedMarks(machine), node.marks);
    }
    case "node.delete":
      return node === undefined;
    case "addon.apply": {
      const wanted = desired.addons.find(({ name }) => name === step.subject);
      const found = world.kubernetes?.addons.get(step.subject);
      return found?.digest === wanted?.digest && found?.isHealthy === true;
    }
  }
}

/** Ready; a control plane also as a member that is well. */
function isUp(seen: SeenMachine | undefined): boolean {
  const talos = configured(seen);
  return talos?.isReady === true && (seen?.role === "worker" || talos.etcd?.problems.length === 0);
}

function isOut(world: World, hostname: string): boolean {
  return etcdHealth(world)?.members.every((member) => member.hostname !== hostname) === true;
}

/** What is missing, in words. */
export function whatIsSeen(world: World, step: Step): string {
  const seen = world.machines.get(step.subject);
  if (seen === undefined)
    return world.kubernetes === undefined ? "Kubernetes does not answer" : "nothing is seen of it";
  const { talos } = seen;
  const node = nodeOf(world, seen);
  const inside =
    talos.state === "silent" || talos.state === "foreign"
      ? `${talos.state}: ${talos.reason}`
      : talos.state === "configured"
        ? [`Talos ${talos.version}`, talos.isReady ? "ready" : "not ready", ...talos.unmet].join(", ")
        : talos.state;
  const etcd = etcdHealth(world)?.problems.join("; ");
  const nodeText = node === undefined ? "no node" : node.isReady ? "node ready" : "node not ready";
  return [inside, ...(etcd ? [`etcd: ${etcd}`] : []), nodeText].join("; ");
}
