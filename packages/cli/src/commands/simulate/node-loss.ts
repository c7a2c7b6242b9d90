import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";

interface Outcome {
  readonly restarted: readonly { readonly guest: string; readonly from: string; readonly to: string }[];
  readonly stranded: readonly {
    readonly guest: string;
    readonly from: string;
    readonly why: string;
    readonly verdicts: readonly {
      readonly node: string;
      readonly refusals: readonly { readonly why: string }[];
    }[];
  }[];
  /** Absent: the server is an older one. */
  readonly down?: readonly { readonly guest: string; readonly from: string; readonly why: string }[];
  readonly stopped: readonly string[];
}

export const simulateNodeLoss: CommandSpec = {
  name: "simulate node-loss",
  summary: "say what would not fit if nodes were lost",
  details:
    "Where HA would start the running guests of the nodes again: in its order, by its rules and with its idea of memory. What is not under HA stays down until its node is back. Virtual clusters are placed on the others as the scheduler would. Nothing is changed. Ends with a failure when something would find no place.",
  arguments: [{ name: "<nodes...>", about: "which nodes" }],
  examples: ["simulate node-loss n2", "simulate node-loss n1 n2 --output json"],
  doing: (input) => `simulate the loss of ${input.args("nodes").join(", ")}`,
  run: async (cli, input) => {
    const nodes = input.args("nodes");
    const outcome = (await (await cli.client()).v1.post("simulate/node-loss", { nodes })) as Outcome;
    const { restarted, stranded, down = [], stopped } = outcome;
    if (!cli.out.forPeople) cli.out.data(outcome);
    else {
      const rows = [
        ...restarted.map(({ guest, from, to }) => ({ guest, from, to, why: "" })),
        ...stranded.map(({ guest, from, why, verdicts }) => ({
          guest,
          from,
          to: "nowhere",
          why: whyText(why, verdicts),
        })),
        ...down.map((each) => ({ ...each, to: "stays down" })),
      ];
      cli.out.text(
        cli.out.table(rows, [
          { header: "GUEST", field: "guest" },
          { header: "FROM", field: "from" },
          { header: "TO", field: "to" },
          { header: "WHY NOT", field: "why" },
        ]),
      );
    }
    if (stopped.length > 0)
      cli.out.note(
        `${stopped.length} more ${stopped.length === 1 ? "guest of theirs does" : "guests of theirs do"} not run.`,
      );
    if (down.length > 0)
      cli.out.note(
        `${down.length} ${down.length === 1 ? "stays" : "stay"} down until the node is back; gpvectl ha add has HA look after a guest.`,
      );
    const meant = stranded.length + restarted.length;
    if (stranded.length > 0)
      throw new AppError(
        "capacity.exceeded",
        `${stranded.length} of ${meant} running guests would find no place`,
      );
    if (meant > 0) cli.out.done(`All ${meant} running guests would find a place.`);
    else cli.out.done(down.length === 0 ? "No guest runs there." : "Nothing would be started elsewhere.");
  },
};

function whyText(why: string, verdicts: Outcome["stranded"][number]["verdicts"]): string {
  const reasons = verdicts.map(
    ({ node, refusals }) => `${node}: ${refusals.map((each) => each.why).join("; ")}`,
  );
  return reasons.length === 0 ? why : reasons.join(". ");
}
