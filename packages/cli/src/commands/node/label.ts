// Labels and taints of a node: what rules and the scheduler go by. KEY=VALUE sets one, KEY- takes it away.
import type { V1Object } from "@gpve/client/object.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { formatTaint, parseTaint, type Taint } from "@gpve/domain/node/taint.ts";
import type { Cli, CommandSpec } from "../../command.ts";

const nodeArgument = { name: "<node>", about: "the node" };
const EFFECTS = ["NoSchedule", "PreferNoSchedule"];

export const nodeLabel: CommandSpec = {
  name: "node label",
  summary: "set and remove labels of a node, or show them",
  details:
    "Rules of guests select nodes by their labels; topology.gpve.io/rack, row, room, datacenter, zone and region say how near two nodes are.",
  arguments: [
    nodeArgument,
    { name: "[changes...]", about: "KEY=VALUE sets a label, KEY- removes it; none: show" },
  ],
  examples: ["node label n2 disk=ssd topology.gpve.io/zone=a", "node label n2 disk-", "node label n2"],
  doing: (input) => `label node ${input.arg("node")}`,
  run: async (cli, input) => {
    const name = input.arg("node");
    const labels = Object.fromEntries(input.args("changes").map(labelChange));
    const { v1 } = await cli.client();
    const node =
      Object.keys(labels).length === 0
        ? await v1.get("nodes", name)
        : await v1.patch("nodes", name, { metadata: { labels } });
    const shown = Object.entries(node.metadata.labels).map(([key, value]) => `${key}=${value}`);
    show(cli, node, `${name} has ${listed("labels", shown)}`);
  },
};

export const nodeTaint: CommandSpec = {
  name: "node taint",
  summary: "keep guests that do not tolerate it off a node, or let them come again",
  details:
    "Who is there already stays. NoSchedule refuses, PreferNoSchedule only where there is another node.",
  arguments: [
    nodeArgument,
    { name: "[changes...]", about: "KEY[=VALUE][:EFFECT] sets a taint, KEY- removes it; none: show" },
  ],
  examples: ["node taint n2 gpu=only:NoSchedule", "node taint n2 gpu-", "node taint n2"],
  doing: (input) => `taint node ${input.arg("node")}`,
  run: async (cli, input) => {
    const name = input.arg("node");
    const changes = input.args("changes").map(taintChange);
    const { v1 } = await cli.client();
    const before = await v1.get("nodes", name);
    const taints = changes.reduce(changed, taintsOf(before));
    const { resourceVersion } = before.metadata;
    const node =
      changes.length === 0
        ? before
        : await v1.patch("nodes", name, { metadata: { resourceVersion }, spec: { taints } });
    show(cli, node, `${name} has ${listed("taints", taintsOf(node).map(formatTaint))}`);
  },
};

function labelChange(text: string): readonly [string, string | null] {
  const [, key, value] = /^([^=]+)=(.*)$/.exec(text) ?? [];
  if (key !== undefined && value !== undefined) return [key, value];
  if (/^[^=]+-$/.test(text)) return [text.slice(0, -1), null];
  throw new AppError("request.invalid", `"${text}" is neither KEY=VALUE nor KEY-`);
}

type TaintChange = { readonly add: Taint } | { readonly remove: string };

function taintChange(text: string): TaintChange {
  if (/^[^=:]+-$/.test(text)) return { remove: text.slice(0, -1) };
  const effect = /:([^:]*)$/.exec(text)?.[1];
  if (!/^[^=:]+(?:=[^=:]*)?(?::[^:]*)?$/.test(text) || (effect !== undefined && !EFFECTS.includes(effect)))
    throw new AppError(
      "request.invalid",
      `"${text}" is neither KEY[=VALUE][:EFFECT], where EFFECT is ${EFFECTS.join(" or ")}, nor KEY-`,
    );
  return { add: parseTaint(text) };
}

/** Of one key and effect there is one. */
function changed(taints: readonly Taint[], change: TaintChange): readonly Taint[] {
  if ("remove" in change) return taints.filter(({ key }) => key !== change.remove);
  const { add } = change;
  return [...taints.filter(({ key, effect }) => key !== add.key || effect !== add.effect), add];
}

function taintsOf({ spec }: V1Object): readonly Taint[] {
  return (spec["taints"] ?? []) as readonly Taint[];
}

function listed(what: string, each: readonly string[]): string {
  return each.length === 0 ? `no ${what}` : `the ${what} ${each.join(", ")}`;
}

function show(cli: Cli, node: V1Object, text: string): void {
  if (cli.out.forPeople) cli.out.line(`${text}.`);
  else cli.out.data(node);
}
