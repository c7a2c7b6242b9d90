import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";
import { showRows, watchOptions } from "../../watch.ts";

export const storageList: CommandSpec = {
  name: "storage list",
  summary: "list storages of every node with their space",
  options: [
    { flags: "--node <name>", about: "only those of this node, also disabled ones" },
    ...watchOptions,
  ],
  examples: ["storage list", "storage list --node n1"],
  doing: () => "list storages",
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const node = input.text("node");
    if (node !== undefined) {
      const columns = [
        { header: "STORAGE", field: "storage" },
        { header: "TYPE", field: "type" },
        { header: "ENABLED", field: "enabled" },
        { header: "ACTIVE", field: "active" },
        { header: "USED", field: "used", of: "total", format: "percent" },
        { header: "OF", field: "total", format: "bytes" },
        { header: "CONTENT", field: "content" },
      ] as const;
      await showRows(cli, input, columns, "No storages.", () => pve.list("/nodes/{node}/storage", { node }));
      return;
    }
    const columns = [
      { header: "STORAGE", field: "storage" },
      { header: "NODE", field: "node" },
      { header: "TYPE", field: "plugintype" },
      { header: "STATUS", field: "status", format: "state" },
      { header: "USED", field: "disk", of: "maxdisk", format: "percent" },
      { header: "OF", field: "maxdisk", format: "bytes" },
      { header: "CONTENT", field: "content" },
    ] as const;
    await showRows(cli, input, columns, "No storages.", () =>
      pve.list("/cluster/resources", given({ type: "storage" as const })),
    );
  },
};
