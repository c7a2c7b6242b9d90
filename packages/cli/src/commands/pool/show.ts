import { pveRows } from "@gpve/client/pve-client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";

export const poolShow: CommandSpec = {
  name: "pool show",
  summary: "show a pool and its members",
  arguments: [{ name: "<pool>", about: "the pool's name; nested ones as a/b/c" }],
  doing: (input) => `show pool ${input.arg("pool")}`,
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const rows = await pve.list("/pools", { poolid: input.arg("pool") });
    const pool = rows[0] ?? {};
    if (!cli.out.forPeople) {
      cli.out.data(pool);
      return;
    }
    cli.out.facts(pool, [
      { header: "Pool", field: "poolid" },
      { header: "Comment", field: "comment" },
    ]);
    const members = pveRows(isObject(pool) ? (pool["members"] ?? []) : [], "the pool");
    if (members.length === 0) return;
    cli.out.line();
    const columns = [
      { header: "MEMBER", field: "id" },
      { header: "TYPE", field: "type" },
      { header: "NODE", field: "node" },
      { header: "NAME", field: "name" },
      { header: "STATUS", field: "status", format: "state" },
    ] as const;
    cli.out.rows(members, columns, "");
  },
};
