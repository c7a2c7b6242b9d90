import type { CommandSpec } from "../../../command.ts";
import { showRows, watchOptions } from "../../../watch.ts";
import { findVm, vmArgument } from "../find-vm.ts";

export const vmSnapshotList: CommandSpec = {
  name: "vm snapshot list",
  summary: "list a VM's snapshots",
  arguments: [vmArgument],
  options: watchOptions,
  examples: ["vm snapshot list 100"],
  doing: (input) => `list the snapshots of VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const columns = [
      { header: "NAME", field: "name" },
      { header: "PARENT", field: "parent" },
      { header: "TAKEN", field: "snaptime", format: "time" },
      { header: "WITH MEMORY", field: "vmstate", format: "boolean" },
      { header: "DESCRIPTION", field: "description" },
    ] as const;
    await showRows(cli, input, columns, "No snapshots.", () =>
      client.pve.list("/nodes/{node}/qemu/{vmid}/snapshot", { ...place }),
    );
  },
};
