import { given } from "@gpve/contracts/given.ts";
import type { PveRow } from "@gpve/client/pve-client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";
import { wholeNumber } from "../../input.ts";
import { cellText } from "../../output/cell.ts";
import { printable } from "../../output/display-width.ts";
import { findVm, vmArgument } from "./find-vm.ts";

const LINES = 5_000;

export const vmLogs: CommandSpec = {
  name: "vm logs",
  summary: "print the logs of a VM's latest tasks, and what its QEMU said",
  arguments: [vmArgument],
  options: [
    { flags: "-n, --limit <count>", about: "of so many tasks (5)", parse: wholeNumber(1, 1000) },
    { flags: "--errors", about: "only of tasks that failed" },
    { flags: "--type <type>", about: "only of tasks of this type, such as qmstart" },
  ],
  examples: ["vm logs web", "vm logs 100 --errors -n 1"],
  doing: (input) => `print the logs of VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const { vmid, node } = await findVm(client, input.arg("vm"));
    const type = input.text("type");
    const tasks = await client.pve.list("/nodes/{node}/tasks", {
      node,
      vmid,
      source: "all",
      limit: input.number("limit") ?? 5,
      ...(input.flag("errors") ? { errors: true } : {}),
      ...given({ typefilter: type }),
    });
    const log = await client.v1.raw("GET", `nodes/${encodeURIComponent(node)}/vms/${vmid}/log`);
    const lines = isObject(log) && Array.isArray(log["lines"]) ? (log["lines"] as unknown[]).map(String) : [];
    // Oldest first: what happened last is what a person looks for at the bottom.
    const logs: (PveRow & { readonly log: readonly string[] })[] = [];
    for (const task of tasks.toReversed()) {
      const upid = String(task["upid"]);
      const rows = await client.pve.list("/nodes/{node}/tasks/{upid}/log", { node, upid, limit: LINES });
      logs.push({ ...task, log: rows.map((row) => String(row["t"])) });
    }
    if (!cli.out.forPeople) {
      cli.out.data({ tasks: logs, qemu: lines });
      return;
    }
    if (logs.length === 0) cli.out.note(`VM ${vmid} has no task logs.`);
    for (const task of logs) {
      const when = cellText(task["starttime"], "time", cli.io.clock.now());
      const outcome = task["endtime"] === undefined ? "running" : String(task["status"]);
      cli.out.line(cli.out.colours.bold(printable(`${when}  ${String(task["type"])}  ${outcome}`)));
      for (const line of task.log) cli.out.line(`  ${printable(line)}`);
    }
    if (lines.length > 0) cli.out.line(cli.out.colours.bold("QEMU"));
    for (const line of lines) cli.out.line(`  ${printable(line)}`);
  },
};
