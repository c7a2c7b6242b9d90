import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { isObject } from "@gpve/client/response-error.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { type Input, wholeNumber } from "../../input.ts";
import { tenantOption, vcArgument, vcNamed, vcPath, vcWords } from "./find-vc.ts";
import { isComing, untilRunning } from "./until-running.ts";

export const vcKubeconfig: CommandSpec = {
  name: "vc kubeconfig",
  summary: "print a new kubeconfig of a virtual cluster, or merge it into yours",
  details:
    "It names you, administers the cluster and can be revoked alone: `vc revoke`. Merged, its context is selected; what belongs to other clusters stays. A cluster that is being made is waited for.",
  arguments: [vcArgument],
  options: [
    tenantOption,
    { flags: "--hours <count>", about: "how long it is good (24)", parse: wholeNumber(1, 8784) },
    { flags: "--merge", about: "put it into kubectl's own file" },
  ],
  examples: ["vc kubeconfig demo --merge", "vc kubeconfig demo > demo.kubeconfig"],
  doing: (input) => `get a kubeconfig of virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const answer = await askWhenItRuns(cli, input);
    const { kubeconfig: text, id } = isObject(answer) ? answer : {};
    if (typeof text !== "string")
      throw new AppError("internal.error", "the server answered without a kubeconfig");
    cli.out.note(`Revoke it with: gpvectl vc revoke ${vcWords(vcNamed(input))} ${String(id)}`);
    if (!input.flag("merge")) {
      cli.out.text(text);
      return;
    }
    const { env, homeDir } = cli.io;
    const named = env["KUBECONFIG"]?.split(":").find((each) => each !== "");
    const path = named ?? join(homeDir, ".kube", "config");
    const { mergePrinted } = await import("@gpve/talos/access/merge-printed.ts");
    const { text: merged, contextName } = mergePrinted(readTextFile(path) ?? "", text);
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    // A link stays one.
    writeFileAtomic(existsSync(path) ? realpathSync(path) : path, merged, 0o600);
    cli.out.done(`Merged into ${path}; the context is ${contextName}.`);
  },
};

/** One that has just been made has none before it runs. */
async function askWhenItRuns(cli: Cli, input: Input): Promise<unknown> {
  const { v1 } = await cli.client();
  const hours = input.number("hours");
  const path = vcPath(input, `/kubeconfig${hours === undefined ? "" : `?hours=${hours}`}`);
  try {
    return await v1.raw("GET", path);
  } catch (err) {
    if (!isAppError(err, "object.conflict") || !(await isComing(cli, vcNamed(input)))) throw err;
    await untilRunning(cli, vcNamed(input));
    return v1.raw("GET", path);
  }
}
