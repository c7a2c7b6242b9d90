// A new certificate authority of a virtual cluster.
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { wholeNumber } from "../../input.ts";
import { tenantOption, vcArgument, vcNamed, vcPath, vcWords } from "./find-vc.ts";

export const vcRotateCa: CommandSpec = {
  name: "vc rotate-ca",
  summary: "give a virtual cluster a new certificate authority",
  details:
    "The new one is trusted beside the old one, and signs from now on; control plane, kubelets and kube-proxies are started again, pods run on. Kubeconfigs of before are good until the old one is dropped: by --drop-old, or when its time is over.",
  arguments: [vcArgument],
  options: [
    tenantOption,
    {
      flags: "--grace <hours>",
      about: "how long the old one is trusted (168: a week)",
      parse: wholeNumber(1, 8760),
    },
    { flags: "--drop-old", about: "drop the old one now: what it signed is good no more" },
    { flags: "--yes", about: "with --drop-old: yes, it is meant" },
    noWaitOption,
  ],
  examples: ["vc rotate-ca demo", "vc rotate-ca demo --drop-old --yes"],
  doing: (input) => `exchange the authority of virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const name = input.arg("name");
    const dropOld = input.flag("dropOld");
    if (dropOld && !input.flag("yes"))
      throw new AppError(
        "request.invalid",
        `kubeconfigs of ${name} from before its new authority are good no more then; say --yes if that is meant`,
      );
    const { v1 } = await cli.client();
    const answer = await v1.post(
      vcPath(input, "/rotate-ca"),
      dropOld ? { dropOld } : { ...given({ graceHours: input.number("grace") }) },
    );
    const words = vcWords(vcNamed(input));
    const done = dropOld
      ? `Virtual cluster ${name} knows its new authority alone; who has a kubeconfig of before gets a new one: gpvectl vc kubeconfig ${words}`
      : `Virtual cluster ${name} has a new authority. Kubeconfigs of before are good until the old one is dropped: gpvectl vc rotate-ca ${words} --drop-old --yes`;
    await finishWork(cli, input, isObject(answer) ? answer["task"] : undefined, done);
  },
};
