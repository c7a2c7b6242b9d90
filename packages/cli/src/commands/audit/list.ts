import { encodeParams } from "@gpve/client/pve-encoding.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";
import { wholeNumber } from "../../input.ts";
import { showRows, watchOptions } from "../../watch.ts";

export const auditList: CommandSpec = {
  name: "audit list",
  summary: "list who did what, newest first",
  options: [
    { flags: "-n, --limit <count>", about: "at most so many (50)", parse: wholeNumber(1, 10_000) },
    { flags: "--before <number>", about: "only entries before this number", parse: wholeNumber(1) },
    { flags: "--actor <userid>", about: "only what this user or token did" },
    { flags: "--action <verb>", about: "only this action, such as delete" },
    ...watchOptions,
  ],
  examples: ["audit list", "audit list --actor joe@pve --action delete -o json"],
  doing: () => "list the audit log",
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const query = encodeParams({
      limit: input.number("limit") ?? 50,
      before: input.number("before"),
      actor: input.text("actor"),
      action: input.text("action"),
    });
    const columns = [
      { header: "NUMBER", field: "seq" },
      { header: "TIME", field: "timestamp", format: "time" },
      { header: "USER", field: "user" },
      { header: "ACTION", field: "verb" },
      { header: "RESOURCE", field: "resource" },
      { header: "NAME", field: "name" },
      { header: "STATUS", field: "statusCode" },
      { header: "FROM", field: "sourceIP", wide: true },
      { header: "MESSAGE", field: "message", wide: true },
    ] as const;
    await showRows(cli, input, columns, "The audit log has no such entries.", async () => {
      const page = await v1.raw("GET", `audit?${query}`);
      const entries = isObject(page) ? page["entries"] : undefined;
      return Array.isArray(entries) ? (entries as readonly unknown[]) : [];
    });
  },
};
