import type { CommandSpec } from "../../command.ts";
import { showRows, watchOptions } from "../../watch.ts";

export const nodeList: CommandSpec = {
  name: "node list",
  summary: "list nodes with their state and load",
  options: watchOptions,
  examples: ["node list", "node list --watch", "node list -o json"],
  doing: () => "list nodes",
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const columns = [
      { header: "NODE", field: "node" },
      { header: "STATUS", field: "status", format: "state" },
      { header: "CPU", field: "cpu", format: "percent" },
      { header: "CPUS", field: "maxcpu" },
      { header: "MEMORY", field: "mem", of: "maxmem", format: "percent" },
      { header: "OF", field: "maxmem", format: "bytes" },
      { header: "DISK", field: "disk", of: "maxdisk", format: "percent" },
      { header: "OF", field: "maxdisk", format: "bytes" },
      { header: "UPTIME", field: "uptime", format: "duration" },
      { header: "FINGERPRINT", field: "ssl_fingerprint", wide: true },
    ] as const;
    await showRows(cli, input, columns, "No nodes.", () => pve.list("/nodes"));
  },
};
