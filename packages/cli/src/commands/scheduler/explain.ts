import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { findVm } from "../vm/find-vm.ts";
import { countText, verdictTable, type Explained } from "./verdicts.ts";

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
    "What the scheduler decided when it was placed, with the score of every node or what spoke against it; what it would decide now; which rules do not hold any more. Nodes are named to who has Sys.Audit on /nodes.",
  arguments: [
    { name: "<kind>", about: "of what kind: vm" },
    { name: "<name>", about: "VMID or name" },
  ],
  examples: ["explain vm 100", "explain vm web --output json"],
  doing: (input) => `explain the place of ${input.arg("kind")} ${input.arg("name")}`,
  run: async (cli, input) => {
    if (input.arg("kind") !== "vm")
      throw new AppError("request.invalid", `'${input.arg("kind")}' cannot be explained; vm can`);
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
    const where =
      now.node === undefined ? "nowhere" : now.node === story.node ? `${now.node} again` : now.node;
    cli.out.text(`\nPlaced now, it would go to ${where}: ${countText(now)}.\n`);
    if (now.node !== decision?.node) cli.out.text(`\n${verdictTable(cli, now)}`);
  },
};
