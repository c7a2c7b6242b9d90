import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { splitName } from "../object/named-object.ts";
import { vcCollection } from "../vc/find-vc.ts";
import { findVm } from "../vm/find-vm.ts";
import { countText, verdictTable, type Explained } from "./verdicts.ts";

interface ClusterStory {
  readonly nodes: readonly string[];
  readonly now: Explained;
}

interface Story {
  readonly id: string;
  readonly node: string;
  readonly decision?: {
    readonly at: string;
    readonly by: string;
    readonly node: string;
    readonly lost: number;
    readonly explanation: Explained;
  };
  readonly now: Explained;
  readonly violations: readonly { readonly rule: string; readonly why: string }[];
}

export const explainPlacement: CommandSpec = {
  name: "explain",
  summary: "say why something is where it is",
  details:
    "What the scheduler decided when it was placed, with the score of every node or what spoke against it; what it would decide now; which rules do not hold any more. Of a virtual cluster: what would be decided now, by the scheduler where it has rules of its own (spec.scheduling), else by where the fewest are. Nodes are named to who has Sys.Audit on /nodes.",
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
      const lost = decision.lost === 0 ? "" : `, after ${decision.lost} places that others took first`;
      const { strategy = "" } = decision.explanation;
      cli.out.text(
        `Placed on ${decision.node} at ${decision.at} for ${decision.by}, by ${strategy}${lost}: ${countText(decision.explanation)}.\n`,
      );
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
  const { nodes, now } = story;
  const why =
    now.strategy === "fewest-clusters"
      ? "It has no rules of its own: it goes where the fewest virtual clusters are, of the nodes that can have it."
      : `It has rules of its own: it goes where the scheduler says, by ${now.strategy ?? ""}.`;
  cli.out.text(`Virtual cluster ${named} is on ${nodes.join(", ")}.\n${why}\n`);
  cli.out.text(nowText(now, nodes[0]));
  cli.out.text(`\n${verdictTable(cli, now)}`);
}

function nowText(now: Explained, at: string | undefined): string {
  const where = now.node === undefined ? "nowhere" : now.node === at ? `${now.node} again` : now.node;
  return `\nPlaced now, it would go to ${where}: ${countText(now)}.\n`;
}
