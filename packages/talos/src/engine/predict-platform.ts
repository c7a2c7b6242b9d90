// Templates and the load balancer's machine as a step would leave them.
import { SYSTEM_DISK } from "../plan/guest-config.ts";
import type { BalancerStep, TemplateStep } from "../plan/plan-steps.ts";
import type { SeenGuest, World } from "./world.ts";

export function afterTemplateStep(world: World, step: TemplateStep): World {
  const { provider, place, subject: name } = step;
  const others = world.templates.filter(
    (each) => each.provider !== provider || each.place.vmid !== place.vmid,
  );
  const ids = new Set(world.vmids.get(provider));
  switch (step.kind) {
    case "template.create": {
      const config = { ...step.config, [SYSTEM_DISK]: madeDisk(step.config[SYSTEM_DISK] ?? "") };
      const made = { name, provider, place, isSealed: false, config, clones: [] };
      const vmids = new Map(world.vmids).set(provider, ids.add(place.vmid));
      return { ...world, templates: [...world.templates, made], vmids };
    }
    case "template.seal":
      return {
        ...world,
        templates: world.templates.map((each) => (each.name === name ? { ...each, isSealed: true } : each)),
      };
    case "template.delete": {
      ids.delete(place.vmid);
      return { ...world, templates: others, vmids: new Map(world.vmids).set(provider, ids) };
    }
  }
}

export function afterBalancerStep(seen: SeenGuest | undefined, step: BalancerStep): SeenGuest | undefined {
  const { provider, place } = step;
  if (step.kind === "balancer.create") return { provider, place, isRunning: false, config: step.config };
  if (seen === undefined || step.kind === "balancer.delete") return undefined;
  if (step.kind !== "balancer.change") return { ...seen, isRunning: step.kind === "balancer.start" };
  const changed = Object.fromEntries(step.changes.map(({ key, to }) => [key, to]));
  return { ...seen, config: { ...seen.config, ...changed } };
}

/** A disk has the image's size until it is grown; an empty one is as large as it was asked for. */
export function madeDisk(value: string): string {
  const gib = /^[^:,]+:([1-9]\d*)/.exec(value)?.[1] ?? "2";
  return `${value},size=${gib}G`;
}
