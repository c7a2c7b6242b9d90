import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { wholeNumber } from "../../input.ts";

interface PlanStatus {
  readonly phase: string;
  readonly message?: string;
  readonly moves: readonly Readonly<Record<"guest" | "from" | "to" | "rule" | "why" | "state", string>>[];
  readonly unsolved: readonly Readonly<Record<"rule" | "guest" | "why", string>>[];
  readonly imbalance: { readonly before: number; readonly after: number };
}

export const rebalancePlan: CommandSpec = {
  name: "rebalance plan",
  summary: "work out which guests to move, and why",
  details:
    "Rules that do not hold are put right first, with as few moves as that takes. With --balance nodes are evened out too. Nothing moves before the plan is approved.",
  options: [
    { flags: "--balance", about: "also even nodes out" },
    { flags: "--threshold <percent>", about: "from how much unevenness on (30)", parse: wholeNumber(0, 100) },
    { flags: "--max-moves <count>", about: "moves at most (5)", parse: wholeNumber(1, 100) },
    { flags: "--name <name>", about: "its name" },
    { flags: "--approve", about: "carry it out at once" },
  ],
  examples: ["rebalance plan", "rebalance plan --balance --max-moves 3 --approve"],
  doing: () => "plan moves of guests",
  run: async (cli, input) => {
    const name = input.text("name") ?? `plan-${cli.io.clock.now().toString(36)}`;
    const made = await (
      await cli.client()
    ).v1.post("rebalanceplans", {
      apiVersion: "gpve.io/v1",
      kind: "RebalancePlan",
      metadata: { name },
      spec: {
        ...(input.flag("approve") ? { approved: true } : {}),
        ...(input.flag("balance") ? { balance: true } : {}),
        ...given({ maxMoves: input.number("maxMoves"), threshold: input.number("threshold") }),
      },
    });
    if (!cli.out.forPeople) {
      cli.out.data(made);
      return;
    }
    const status = statusOf(made);
    show(cli, status);
    if (status.moves.length === 0) cli.out.done("There is nothing to move.");
    else if (input.flag("approve"))
      cli.out.done(`Plan ${name} is carried out: gpvectl describe rebalanceplan ${name}.`);
    else cli.out.done(`Plan ${name} waits: gpvectl rebalance approve ${name}.`);
  },
};

export const rebalanceApprove: CommandSpec = {
  name: "rebalance approve",
  summary: "have the moves of a plan made",
  arguments: [{ name: "<plan>", about: "its name" }],
  examples: ["rebalance approve plan-1"],
  doing: (input) => `approve plan ${input.arg("plan")}`,
  run: async (cli, input) => {
    const name = input.arg("plan");
    const plan = await (await cli.client()).v1.patch("rebalanceplans", name, { spec: { approved: true } });
    if (!cli.out.forPeople) cli.out.data(plan);
    cli.out.done(`Plan ${name} is carried out: gpvectl describe rebalanceplan ${name}.`);
  },
};

function show(cli: Cli, { moves, unsolved, imbalance }: PlanStatus): void {
  if (moves.length > 0)
    cli.out.text(
      cli.out.table(
        [...moves],
        [
          { header: "GUEST", field: "guest" },
          { header: "FROM", field: "from" },
          { header: "TO", field: "to" },
          { header: "RULE", field: "rule" },
          { header: "WHY", field: "why" },
        ],
      ),
    );
  for (const { rule, guest, why } of unsolved) cli.out.note(`${guest}: ${rule} is not put right: ${why}`);
  cli.out.note(
    `Between the fullest node and the emptiest: ${imbalance.before} % now, ${imbalance.after} % then.`,
  );
}

function statusOf(made: unknown): PlanStatus {
  if (isObject(made) && isObject(made["status"])) return made["status"] as unknown as PlanStatus;
  throw new AppError("internal.error", "the server made a plan and did not show it");
}
