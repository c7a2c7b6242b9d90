import type { CommandSpec } from "../../command.ts";
import { showRows, watchOptions } from "../../watch.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";

export const vmList: CommandSpec = {
  name: "vm list",
  summary: "list virtual machines",
  options: [
    { flags: "--node <name>", about: "only those on this node" },
    { flags: "--running", about: "only those that run" },
    { flags: "--pool <name>", about: "only those of this pool" },
    ...watchOptions,
  ],
  examples: ["vm list", "vm list --running --watch"],
  doing: () => "list VMs",
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const node = input.text("node");
    const pool = input.text("pool");
    const columns = [
      { header: "VMID", field: "vmid" },
      { header: "NAME", field: "name" },
      { header: "NODE", field: "node" },
      { header: "STATUS", field: "status", format: "state" },
      { header: "CPU", field: "cpu", format: "percent" },
      { header: "CPUS", field: "maxcpu" },
      { header: "MEMORY", field: "mem", of: "maxmem", format: "percent" },
      { header: "OF", field: "maxmem", format: "bytes" },
      { header: "UPTIME", field: "uptime", format: "duration" },
      { header: "POOL", field: "pool", wide: true },
      { header: "TAGS", field: "tags", wide: true },
      { header: "LOCK", field: "lock", wide: true },
      { header: "TEMPLATE", field: "template", format: "boolean", wide: true },
    ] as const;
    await showRows(cli, input, columns, "No VMs.", async () => {
      const rows = await pve.list("/cluster/resources", { type: "vm" });
      return rows
        .filter((row) => row["type"] === VM_TYPE)
        .filter((row) => node === undefined || row["node"] === node)
        .filter((row) => pool === undefined || row["pool"] === pool)
        .filter((row) => !input.flag("running") || row["status"] === "running")
        .toSorted((a, b) => Number(a["vmid"]) - Number(b["vmid"]));
    });
  },
};
