import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { splitName } from "../object/named-object.ts";
import { vcCollection } from "../vc/find-vc.ts";
import { findVm } from "../vm/find-vm.ts";
import { countText, verdictTable, type Explained } from "./verdicts.ts";

interface Decision {
  readonly at: string;
  readonly by: string;
  readonly node: string;
  readonly lost: number;
  readonly explanation: Explained;
}

interface ClusterStory {
  readonly nodes: readonly string[];
  /** Absent: the server is an older one. */
  readonly decisions?: readonly (Decision & { readonly part: string })[];
  readonly now: Explained;
}

interface Story {
  readonly id: string;
  readonly node: string;
  readonly decision?: Decision;
  readonly now: Explained;
  readonly violations: readonly { readonly rule: string; readonly why: string }[];
}

export const explainPlacement: CommandSpec = {
  name: "explain",
  summary: "say why something is where it is",
  details:
    "What the scheduler decided when it was placed, with the score of every node or what spoke against it; what it would decide now; which rules do not hold any more. Of a virtual cluster: of each part of it, a standby too. Nodes are named to who has Sys.Audit on /nodes.",
  arguments: [
    { name: "<kind>", about: "of what kind: vm or vc" },
    { name: "<name>", about: "VMID or name; of a virtual cluster its name, or TENANT/NAME" },
  ],
  examples: ["explain vm 100", "explain vm web --output json", "explain vc shop/demo"],
  doing: (input) => `explain the place of ${input.arg("kind")} ${input.arg("name")}`,
  run: async (cli, input) => {
    const kind = input.arg("kind");
    if (kind === "vc") return explainCluster(cli, input.arg("name"));
    if (kind !== "vm") throw new AppError("request.invalid", `'${kind}' cannot be explained; vm and vc can`);
    const client = await cli.client();
    const { vmid } = await findVm(client, input.arg("name"));
    const story = (await client.v1.raw("GET", `virtualmachines/${vmid}/placement`)) as Story;
    if (!cli.out.forPeople) {
      cli.out.data(story);
      return;
    }
    const { decision, now, violations } = story;
    cli.out.text(`VM ${vmid} is on ${story.node}.\n`);
    if (decision === undefined) cli.out.text("Nobody looked for its node: it was named.\n");
    else {
      cli.out.text(`Placed on ${decidedText(decision)}.\n`);
      cli.out.text(`\n${verdictTable(cli, decision.explanation)}`);
      if (decision.node !== story.node)
        cli.out.text(`\nIt was moved since; where HA did it, gpvectl ha explain ${vmid} says why.\n`);
    }
    for (const { rule, why } of violations) cli.out.text(`\n${rule} does not hold: ${why}\n`);
    cli.out.text(nowText(now, story.node));
    if (now.node !== decision?.node) cli.out.text(`\n${verdictTable(cli, now)}`);
  },
};

async function explainCluster(cli: Cli, named: string): Promise<void> {
  const { name, tenant } = splitName(named);
  const { v1 } = await cli.client();
  const path = `${vcCollection(tenant)}/${encodeURIComponent(name)}/placement`;
  const story = (await v1.raw("GET", path)) as ClusterStory;
  if (!cli.out.forPeople) {
    cli.out.data(story);
    return;
  }
  const { nodes, decisions, now } = story;
  cli.out.text(`Virtual cluster ${named} is on ${nodes.join(", ")}.\n`);
  if (decisions?.length === 0)
    cli.out.text("Its node was named, or chosen by a version that did not write down why.\n");
  for (const decision of decisions ?? []) {
    cli.out.text(`\nIts ${decision.part} was placed on ${decidedText(decision)}.\n`);
    cli.out.text(`\n${verdictTable(cli, decision.explanation)}`);
    if (decision.part !== "standby" && !nodes.includes(decision.node))
      cli.out.text("\nIt was moved since.\n");
  }
  cli.out.text(nowText(now, nodes[0]));
  cli.out.text(`\n${verdictTable(cli, now)}`);
}

function decidedText({ node, at, by, lost, explanation }: Decision): string {
  const beaten = lost === 0 ? "" : `, after ${lost} places that others took first`;
  const asking = by === "" ? "" : ` for ${by}`;
  return `${node} at ${at}${asking}, by ${explanation.strategy ?? ""}${beaten}: ${countText(explanation)}`;
}

function nowText(now: Explained, at: string | undefined): string {
  const where = now.node === undefined ? "nowhere" : now.node === at ? `${now.node} again` : now.node;
  return `\nPlaced now, it would go to ${where}: ${countText(now)}.\n`;
}
