import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";

export const groupShow: CommandSpec = {
  name: "group show",
  summary: "show one group",
  arguments: [{ name: "<group>", about: "the group's name" }],
  doing: (input) => `show group ${input.arg("group")}`,
  run: async (cli, input) => {
    const groupid = input.arg("group");
    const { pve } = await cli.client();
    const answer = await pve.get("/access/groups/{groupid}", { groupid });
    cli.out.facts({ groupid, ...(isObject(answer) ? answer : {}) }, [
      { header: "Group", field: "groupid" },
      { header: "Comment", field: "comment" },
      { header: "Members", field: "members", format: "list" },
    ]);
  },
};
