import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { isErrorCode } from "@gpve/client/response-error.ts";
import type { PlanItem } from "@gpve/client/object.ts";
import type { CommandSpec } from "../../command.ts";
import { fileOption, readManifests } from "./manifests.ts";
import { planSummary, printPlan } from "./plan-text.ts";

export const objectApply: CommandSpec = {
  name: "apply",
  summary: "make objects be as files say",
  details: [
    "All objects become so in one durable operation, or, when a step fails, none. Objects that are not in the",
    "files are left alone.",
  ].join(" "),
  options: [
    fileOption,
    { flags: "--dry-run", about: "show the plan and stop" },
    { flags: "--no-wait", about: "return when the work has been accepted" },
  ],
  examples: ["apply -f cluster.yaml", "apply -f ./objects/ --dry-run", "apply -f - < tenant.yaml"],
  doing: () => "apply the objects",
  run: async (cli, input) => {
    const objects = await readManifests(cli, input);
    const client = await cli.client();
    if (input.flag("dryRun")) {
      const plan = await client.v1.plan(objects, { signal: cli.signal });
      if (cli.out.forPeople) printPlan(cli.out, plan.items);
      else cli.out.data(plan);
      refuse(plan.items);
      return;
    }
    const result = await client.v1.apply(objects, { signal: cli.signal }).catch((err: unknown) => {
      // A refusal tells about every object; the error itself names only the first.
      const items = isAppError(err) ? err.data["items"] : undefined;
      if (Array.isArray(items) && cli.out.forPeople) printPlan(cli.out, items as readonly PlanItem[]);
      throw err;
    });
    if (cli.out.forPeople) printPlan(cli.out, result.items);
    else cli.out.data(result);
    if (result.task !== undefined && input.flag("wait")) {
      await client.requireTask(result.task, {
        signal: cli.signal,
        onLog: (line) => cli.out.note(`  ${line}`),
      });
    }
    cli.out.note(
      planSummary(result.items).replaceAll("to create", "created").replaceAll("to update", "updated"),
    );
  },
};

/** A refused item means that nothing was done at all. */
function refuse(items: readonly PlanItem[]): void {
  const first = items.find((item) => item.action === "refused");
  if (first === undefined) return;
  const { code, detail } = first.problem ?? { code: "request.invalid", detail: "refused" };
  throw new AppError(isErrorCode(code) ? code : "request.invalid", `${first.kind} ${first.name}: ${detail}`);
}
