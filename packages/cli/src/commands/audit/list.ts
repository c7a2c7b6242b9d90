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
    { flags: "--user <userid>", about: "only what this user or token did" },
    { flags: "--verb <verb>", about: "only this: create, update, delete, read or login" },
    { flags: "--resource <path>", about: "only this path and what is below it, such as /pools" },
    { flags: "--status <code>", about: "only this HTTP status, 403, or class, 4xx" },
    { flags: "--since <time>", about: "only from this time on (ISO 8601)" },
    { flags: "--until <time>", about: "only before this time (ISO 8601)" },
    ...watchOptions,
  ],
  examples: ["audit list", "audit list --user joe@pve --verb delete -o json", "audit list --status 4xx"],
  doing: () => "list the audit log",
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const query = encodeParams({
      limit: input.number("limit") ?? 50,
      before: input.number("before"),
      user: input.text("user"),
      verb: input.text("verb"),
      resource: input.text("resource"),
      status: input.text("status"),
      since: input.text("since"),
      until: input.text("until"),
    });
    const columns = [
      { header: "NUMBER", field: "seq" },
      { header: "TIME", field: "timestamp", format: "time" },
      { header: "USER", field: "user" },
      { header: "VERB", field: "verb" },
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
