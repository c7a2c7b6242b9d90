import { isObject } from "@gpve/client/response-error.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { wholeNumber } from "../../input.ts";
import { tenantOption, vcArgument, vcPath, yesOption } from "./find-vc.ts";

export const vcScale: CommandSpec = {
  name: "vc scale",
  summary: "give a virtual cluster more workers, or fewer",
  details: "Workers that go are cordoned and drained first, the last one before the others.",
  arguments: [vcArgument],
  options: [
    tenantOption,
    { flags: "--workers <count>", about: "how many it shall have", parse: wholeNumber(0, 1000) },
    { flags: "--pool <name>", about: "in this pool (those of the cluster itself)" },
    yesOption,
    noWaitOption,
  ],
  examples: ["vc scale demo --workers 3", "vc scale demo --pool build --workers 2"],
  doing: (input) => `scale virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const count = input.number("workers");
    if (count === undefined) throw new AppError("request.invalid", "say how many: --workers 3");
    const pool = input.text("pool");
    const { v1 } = await cli.client();
    const answer = await v1.post(vcPath(input, "/scale"), { count, ...given({ pool }) });
    const task = isObject(answer) ? answer["task"] : undefined;
    const where = pool === undefined ? "" : ` in pool ${pool}`;
    const workers = count === 1 ? "1 worker" : `${count} workers`;
    await finishWork(cli, input, task, `Virtual cluster ${input.arg("name")} has ${workers}${where}.`);
  },
};
