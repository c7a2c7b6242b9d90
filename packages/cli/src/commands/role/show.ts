import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";

export const roleShow: CommandSpec = {
  name: "role show",
  summary: "show one role's privileges, one per line",
  arguments: [{ name: "<role>", about: "the role's name" }],
  examples: ["role show PVEVMUser"],
  doing: (input) => `show role ${input.arg("role")}`,
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const answer = await pve.get("/access/roles/{roleid}", { roleid: input.arg("role") });
    if (!cli.out.forPeople) {
      cli.out.data(answer);
      return;
    }
    const privileges = isObject(answer) ? Object.keys(answer).filter((name) => answer[name] === 1) : [];
    for (const name of privileges.toSorted()) cli.out.line(name);
    if (privileges.length === 0) cli.out.note("This role has no privileges.");
  },
};
