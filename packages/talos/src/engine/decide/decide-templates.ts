// Templates: made before machines are cloned from them, each for one version and role. One that is no longer wanted goes
// only when no linked clone reads from it.
import { balancerOf } from "../../cluster/balancer.ts";
import type { Machine } from "../../cluster/machine.ts";
import { cloneMode, templateName } from "../../cluster/templates.ts";
import { newTemplate } from "../../plan/template-config.ts";
import type { TemplateStep } from "../../plan/plan-steps.ts";
import { error, type Finding } from "../../preflight/finding-report.ts";
import type { Desired } from "../desired.ts";
import { doing, type Rule, type Situation, stopping } from "../situation.ts";
import type { SeenTemplate, World } from "../world.ts";

interface WantedTemplate {
  readonly name: string;
  /** One of those that are cloned from it. */
  readonly machine: Machine;
  readonly provider: string;
  readonly host: string;
}

/** As much of a situation as templates depend on. */
interface TemplateSituation {
  readonly desired: Pick<Desired, "cluster" | "machines">;
  readonly world: Pick<World, "templates" | "sharingDisks">;
}

/** By name; control planes' first. */
function wantedTemplates({ desired, world }: TemplateSituation): ReadonlyMap<string, WantedTemplate> {
  const { cluster, machines } = desired;
  const wanted = new Map<string, WantedTemplate>();
  if (cloneMode(cluster) === undefined) return wanted;
  for (const machine of machines) {
    const { provider, host } = templatePlace(desired, world, machine);
    const name = nameFor(desired, world, machine);
    if (!wanted.has(name)) wanted.set(name, { name, machine, provider, host });
  }
  return wanted;
}

/** The template of a machine, once it can be cloned. */
export function templateOf({ desired, world }: Situation, machine: Machine): SeenTemplate | undefined {
  const name = nameFor(desired, world, machine);
  return world.templates.find((each) => each.name === name && each.isSealed);
}

/** Disks of a local storage are cloned where they lie. */
function templatePlace(
  { cluster }: Pick<Desired, "cluster">,
  { sharingDisks }: Pick<World, "sharingDisks">,
  { provider, host }: Machine,
) {
  if (!sharingDisks.has(provider)) return { provider, host };
  const nodes = cluster.providers.find(({ name }) => name === provider)?.nodes ?? [];
  const chosen = cluster.templates.nodes.find((node) => nodes.includes(node));
  return { provider, host: chosen ?? nodes[0] ?? host };
}

const nameFor = (
  { cluster }: Pick<Desired, "cluster">,
  { sharingDisks }: Pick<World, "sharingDisks">,
  machine: Machine,
): string => templateName(cluster, machine, sharingDisks.has(machine.provider) ? undefined : machine.host);

/** Those whose guest is not there yet: what they are made from must be. */
export function lackingTemplates(situation: TemplateSituation): readonly WantedTemplate[] {
  const known = new Set(situation.world.templates.map(({ name }) => name));
  return [...wantedTemplates(situation).values()].filter(({ name }) => !known.has(name));
}

export const makeTemplates: Rule = (situation) => {
  const { desired, world } = situation;
  const wanted = wantedTemplates(situation);
  const steps: TemplateStep[] = [];
  const taken = new Map([...world.vmids].map(([provider, ids]) => [provider, new Set(ids)]));
  for (const { name, provider, place } of world.templates.filter(({ isSealed }) => !isSealed))
    if (wanted.has(name))
      steps.push({ kind: "template.seal", impact: "safe", provider, place, subject: name });
  for (const template of lackingTemplates(situation)) {
    const { name, provider, host, machine } = template;
    const ids = taken.get(provider) ?? new Set(desired.machines.map(({ vmid }) => vmid));
    taken.set(provider, ids);
    const found = chooseId(situation, template, ids);
    if (found.step !== undefined) return doing([found.step]);
    if (found.vmid === undefined) return stopping(found.problem);
    ids.add(found.vmid);
    const of = { impact: "safe", provider, place: { host, vmid: found.vmid }, subject: name } as const;
    steps.push(
      { kind: "template.create", ...of, config: newTemplate(desired.cluster, machine, name) },
      { kind: "template.seal", ...of },
    );
  }
  return doing(steps);
};

type Choice =
  | { readonly vmid: number; readonly step?: undefined }
  | { readonly step: TemplateStep; readonly vmid?: undefined }
  | { readonly problem: Finding; readonly vmid?: undefined; readonly step?: undefined };

/** The file's own VMID is for the first template of a role; one that is in the way and that nobody needs goes first. */
function chooseId(situation: Situation, template: WantedTemplate, taken: ReadonlySet<number>): Choice {
  const { cluster, machines } = situation.desired;
  const { role } = template.machine;
  const asked = cluster.templates[role === "controlplane" ? "controlPlane" : "worker"];
  const first = [...wantedTemplates(situation).values()].find(({ machine }) => machine.role === role);
  if (asked !== null && first?.name === template.name) {
    if (!taken.has(asked)) return { vmid: asked };
    const holder = situation.world.templates.find(
      ({ provider, place }) => provider === template.provider && place.vmid === asked,
    );
    if (holder === undefined)
      return { problem: error("template-vmid-taken", template.name, `VMID ${asked} is somebody else's`) };
    const isWanted = wantedTemplates(situation).has(holder.name);
    if (!isWanted && holder.clones.length === 0) return { step: removal(holder) };
  }
  const balancer = balancerOf(cluster, machines);
  const own = new Set([...machines, ...(balancer === undefined ? [] : [balancer])].map(({ vmid }) => vmid));
  const [from = 0, to = 0] = cluster.vmids.template.split("-").map(Number);
  for (let id = from; id <= to; id += 1) if (!taken.has(id) && !own.has(id)) return { vmid: id };
  const range = cluster.vmids.template;
  return {
    problem: error("vmids-exhausted", template.name, `none of vmids.template (${range}) is free; widen it`),
  };
}

/** Last of all: until then somebody may still be cloned from it. */
export const removeTemplates: Rule = (situation) =>
  doing(
    staleTemplates(situation)
      .filter(({ clones }) => clones.length === 0)
      .map(removal),
  );

function staleTemplates(situation: Situation): readonly SeenTemplate[] {
  const wanted = wantedTemplates(situation);
  return situation.world.templates.filter(({ name }) => !wanted.has(name));
}

/** What stays though nobody wants it, and why. */
export function keptTemplates(situation: Situation): readonly string[] {
  return staleTemplates(situation)
    .filter(({ clones }) => clones.length > 0)
    .map(({ name, place, clones }) => {
      const who = clones.map((vmid) => nameOf(situation, vmid)).join(", ");
      return `template ${name} (VMID ${place.vmid} on ${place.host}): linked clones read from it: ${who}`;
    });
}

function nameOf({ world }: Situation, vmid: number): string {
  const found = [...world.machines.values()].find(({ guest }) => guest?.place.vmid === vmid);
  return found === undefined ? `VMID ${vmid}` : found.name;
}

export function removal({ name, provider, place }: SeenTemplate): TemplateStep {
  return { kind: "template.delete", impact: "safe", provider, place, subject: name };
}
