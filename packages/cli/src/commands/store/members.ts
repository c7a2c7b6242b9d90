import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";
import { showRows, watchOptions } from "../../watch.ts";

export const storeMembers: CommandSpec = {
  name: "store members",
  summary: "list the members of the cluster's etcd and how they do",
  details:
    "A learner follows and gets its vote when it has caught up. With three voters one may be lost; with two of them lost nothing can be changed until one is back.",
  options: watchOptions,
  examples: ["store members", "store members --watch", "store members -o json"],
  doing: () => "list the members of the store",
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const columns = [
      { header: "NAME", field: "name" },
      { header: "ROLE", field: "role" },
      { header: "LEADER", field: "leader", format: "boolean" },
      { header: "HEALTHY", field: "healthy", format: "boolean" },
      { header: "SIZE", field: "bytes", format: "bytes" },
      { header: "VERSION", field: "version" },
      { header: "ADDRESS", field: "clientUrls", format: "list" },
      { header: "PROBLEM", field: "problem" },
      { header: "ID", field: "id", wide: true },
    ] as const;
    await showRows(cli, input, columns, "No members.", async () => {
      const answer = await v1.raw("GET", "store-members");
      const rows = isObject(answer) ? answer["members"] : undefined;
      return Array.isArray(rows) ? rows.filter(isObject) : [];
    });
  },
};

export const storeRemoveMember: CommandSpec = {
  name: "store remove-member",
  summary: "take a lost member out of the cluster's etcd, so that another server takes its place",
  details:
    "For a server that will not come back. A server that stands by, or the next one that joins, becomes a member within seconds. A member that answers is refused: stop its server first. A machine that joins again under the same name needs no removal before.",
  arguments: [{ name: "<member>", about: "its name, which is its server's" }],
  examples: ["store remove-member n3"],
  doing: (input) => `take ${input.arg("member")} out of the store`,
  run: async (cli, input) => {
    const member = input.arg("member");
    const { v1 } = await cli.client();
    await v1.raw("DELETE", `store-members/${encodeURIComponent(member)}`);
    cli.out.done(`Took ${member} out of the store.`);
  },
};
