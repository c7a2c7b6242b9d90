// Turns rules into what placement asks for. Rules that contradict each other are left out with the reason, both sides
// of a contradiction alike: guessing which one was meant would surprise somebody.
import type { HaEnvironment } from "./environment.ts";
import type { NodeAffinityRule, ResourceAffinityRule, Rules } from "./rules.ts";

export interface CompiledRules {
  readonly nodeAffinity: ReadonlyMap<string, NodeAffinityRule>;
  readonly together: ReadonlyMap<string, ReadonlySet<string>>;
  readonly apart: ReadonlyMap<string, ReadonlySet<string>>;
  readonly dropped: readonly { readonly id: string; readonly reason: string }[];
}

/** Of those that are services now. */
export function rulesInForce(
  env: Pick<HaEnvironment, "rules" | "members">,
  services: { has(sid: string): boolean },
): CompiledRules {
  const rules = env
    .rules()
    .map((rule) => ({ ...rule, resources: rule.resources.filter((sid) => services.has(sid)) }));
  return compileRules(rules, [...env.members().keys()]);
}

export function compileRules(rules: Rules, nodes: readonly string[]): CompiledRules {
  const check = new Consistency(rules);
  check.sharedResources();
  check.tooFewResources();
  check.moreResourcesThanNodes(nodes.length);
  check.togetherAndApart();
  check.severalPriorities();
  check.severalHomes();
  check.tooFewHomes();
  check.dropAll();

  const groups = connected(check.positive());
  const nodeAffinity = new Map<string, NodeAffinityRule>();
  for (const rule of check.nodeRules()) for (const sid of rule.resources) nodeAffinity.set(sid, rule);
  const together = new Map<string, Set<string>>();
  for (const group of groups) {
    const home = [...group].map((sid) => nodeAffinity.get(sid)).find((rule) => rule !== undefined);
    for (const sid of group) {
      together.set(sid, new Set([...group].filter((other) => other !== sid)));
      // Who must be with a service goes where that one belongs.
      if (home !== undefined) nodeAffinity.set(sid, home);
    }
  }
  return { nodeAffinity, together, apart: pairsApart(check.negative(), groups), dropped: check.dropped };
}

export interface Crowded {
  readonly resources: readonly string[];
  /** All that they may be on, and fewer than they are. */
  readonly nodes: readonly string[];
}

/** Resources that must be apart, and of which not all can run at once, whatever becomes of the nodes. */
export function crowdedApart(rules: Rules, nodes: readonly string[]): Crowded | undefined {
  const { nodeAffinity, dropped } = compileRules(rules, nodes);
  const homeOf = (sid: string): readonly string[] => {
    const home = nodeAffinity.get(sid);
    return home?.strict === true ? nodes.filter((node) => home.nodes.has(node)) : nodes;
  };
  for (const rule of rules) {
    if (rule.type !== "resource-affinity" || rule.affinity !== "negative") continue;
    if (dropped.some(({ id }) => id === rule.id)) continue;
    const crowded = withoutRoom(rule.resources, homeOf);
    if (crowded !== undefined) return crowded;
  }
  return undefined;
}

/** Gives each a node of its own, where those before may have to take another one of theirs; else those who cannot. */
function withoutRoom(
  resources: readonly string[],
  homeOf: (sid: string) => readonly string[],
): Crowded | undefined {
  const taken = new Map<string, string>();
  for (const sid of resources) {
    const tried = new Set<string>();
    const settle = (each: string): boolean =>
      homeOf(each).some((node) => {
        if (tried.has(node)) return false;
        tried.add(node);
        const holder = taken.get(node);
        if (holder !== undefined && !settle(holder)) return false;
        taken.set(node, each);
        return true;
      });
    if (settle(sid)) continue;
    const holders = [...tried].flatMap((node) => taken.get(node) ?? []);
    return { resources: [sid, ...holders].toSorted(), nodes: [...tried].toSorted() };
  }
  return undefined;
}

function pairsApart(negative: readonly ResourceAffinityRule[], groups: readonly ReadonlySet<string>[]) {
  const apart = new Map<string, Set<string>>();
  const groupOf = (sid: string) => groups.find((group) => group.has(sid)) ?? new Set([sid]);
  const add = (a: string, b: string) => apart.set(a, (apart.get(a) ?? new Set()).add(b));
  for (const rule of negative) {
    for (const a of rule.resources) {
      for (const b of rule.resources) {
        if (a === b) continue;
        // Whoever is tied to one of the two is kept from the other, too.
        for (const tied of groupOf(a)) {
          add(tied, b);
          add(b, tied);
        }
      }
    }
  }
  return apart;
}

/** Services tied by a chain of positive rules. */
function connected(rules: readonly ResourceAffinityRule[]): readonly ReadonlySet<string>[] {
  const groups: Set<string>[] = [];
  for (const rule of rules) {
    const touching = groups.filter((group) => rule.resources.some((sid) => group.has(sid)));
    const merged = new Set([...touching.flatMap((group) => [...group]), ...rule.resources]);
    groups.splice(0, groups.length, ...groups.filter((group) => !touching.includes(group)), merged);
  }
  return groups;
}

/** Every check sees all rules: which of two that contradict each other is the mistake nobody knows. */
class Consistency {
  readonly dropped: { id: string; reason: string }[] = [];
  #rules: Rules;

  constructor(rules: Rules) {
    this.#rules = rules;
  }

  nodeRules(): readonly NodeAffinityRule[] {
    return this.#rules.filter((rule) => rule.type === "node-affinity");
  }

  positive(): readonly ResourceAffinityRule[] {
    return this.#affinity("positive");
  }

  negative(): readonly ResourceAffinityRule[] {
    return this.#affinity("negative");
  }

  sharedResources(): void {
    const reasons = new Map<string, string>();
    for (const rule of this.nodeRules()) {
      const others = this.nodeRules().filter((other) => other !== rule);
      const shared = rule.resources.find((sid) => others.some((other) => other.resources.includes(sid)));
      if (shared === undefined) continue;
      reasons.set(rule.id, `resource '${shared}' is already used in another node affinity rule`);
    }
    this.#note(reasons);
  }

  tooFewResources(): void {
    this.#wrong(
      [...this.positive(), ...this.negative()].filter((rule) => rule.resources.length < 2),
      "rule is ineffective as there are less than two resources",
    );
  }

  moreResourcesThanNodes(nodes: number): void {
    this.#wrong(
      this.negative().filter((rule) => rule.resources.length > nodes),
      "rule defines more resources than available nodes",
    );
  }

  togetherAndApart(): void {
    const reasons = new Map<string, string>();
    for (const group of connected(this.positive())) {
      for (const rule of this.negative()) {
        if (shares(rule, group) < 2) continue;
        reasons.set(rule.id, "rule shares two or more resources with a positive resource affinity rule");
        for (const tie of this.positive().filter((other) => shares(other, group) > 0)) {
          reasons.set(tie.id, "rule shares two or more resources with a negative resource affinity rule");
        }
      }
    }
    this.#note(reasons);
  }

  severalPriorities(): void {
    const reasons = new Map<string, string>();
    for (const rule of [...this.positive(), ...this.negative()]) {
      const homes = this.nodeRules().filter((home) => shares(rule, new Set(home.resources)) > 0);
      if (homes.every((home) => new Set(home.nodes.values()).size < 2)) continue;
      reasons.set(rule.id, "resources are in node affinity rules with multiple priorities");
      for (const home of homes) {
        reasons.set(
          home.id,
          "resources are in a resource affinity rule and cannot be in a node affinity rule with multiple priorities",
        );
      }
    }
    this.#note(reasons);
  }

  severalHomes(): void {
    const reasons = new Map<string, string>();
    for (const group of connected(this.positive())) {
      const homes = this.nodeRules().filter((home) => shares(home, group) > 0);
      if (homes.length < 2) continue;
      for (const rule of this.positive().filter((tie) => shares(tie, group) > 0)) {
        reasons.set(rule.id, "resources are in multiple node affinity rules");
      }
      for (const home of homes) {
        reasons.set(
          home.id,
          "at least one resource is in a positive resource affinity rule and there are other resources in at least " +
            "one other node affinity rule already",
        );
      }
    }
    this.#note(reasons);
  }

  tooFewHomes(): void {
    const reasons = new Map<string, string>();
    for (const rule of this.negative()) {
      const homes = this.nodeRules().filter(
        (home) => home.strict && shares(home, new Set(rule.resources)) > 0,
      );
      const bound = rule.resources.filter((sid) => homes.some((home) => home.resources.includes(sid)));
      const places = new Set(homes.flatMap((home) => [...home.nodes.keys()]));
      if (places.size >= bound.length) continue;
      reasons.set(
        rule.id,
        "two or more resources are restricted to less nodes than available to the resources",
      );
      for (const home of homes) {
        reasons.set(
          home.id,
          "at least one resource is in a negative resource affinity rule and this rule would restrict these to less " +
            "nodes than available to the resources",
        );
      }
    }
    this.#note(reasons);
  }

  #affinity(kind: "positive" | "negative"): readonly ResourceAffinityRule[] {
    return this.#rules
      .filter((rule) => rule.type === "resource-affinity")
      .filter((rule) => rule.affinity === kind);
  }

  dropAll(): void {
    const ids = new Set(this.dropped.map(({ id }) => id));
    this.#rules = this.#rules.filter((rule) => !ids.has(rule.id));
  }

  #wrong(rules: readonly ResourceAffinityRule[], reason: string): void {
    this.#note(new Map(rules.map((rule) => [rule.id, reason])));
  }

  #note(reasons: ReadonlyMap<string, string>): void {
    for (const [id, reason] of reasons) this.dropped.push({ id, reason });
  }
}

function shares(rule: { readonly resources: readonly string[] }, group: ReadonlySet<string>): number {
  return rule.resources.filter((sid) => group.has(sid)).length;
}
