import type { CommandSpec } from "../../command.ts";
import { fileOption, readManifests } from "./manifests.ts";
import { planSummary, printPlan } from "./plan-text.ts";

/** As `diff` does: 0 = no difference, 1 = some. Trouble has the error kinds' own codes, from 2 on. */
const DIFFERS = 1;

export const objectDiff: CommandSpec = {
  name: "diff",
  summary: "show what apply would change, as the server sees it",
  details:
    "Changes nothing. The exit code is 0 when everything is as the files say, 1 when something differs.",
  options: [fileOption],
  examples: ["diff -f cluster.yaml", "diff -f ./objects/"],
  doing: () => "compare the objects",
  run: async (cli, input) => {
    const objects = await readManifests(cli, input);
    const { v1 } = await cli.client();
    const plan = await v1.plan(objects, { signal: cli.signal });
    if (cli.out.forPeople) {
      printPlan(cli.out, plan.items);
      cli.out.note(planSummary(plan.items));
    } else cli.out.data(plan);
    return plan.items.every((item) => item.action === "unchanged") ? 0 : DIFFERS;
  },
};
