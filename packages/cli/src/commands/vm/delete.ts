import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { findVm, vmArgument } from "./find-vm.ts";

export const vmDelete: CommandSpec = {
  name: "vm delete",
  summary: "delete a stopped VM and its disks",
  arguments: [vmArgument],
  options: [
    { flags: "--purge", about: "also remove it from backup jobs, HA and replication" },
    { flags: "--unreferenced-disks", about: "also delete its disks that the configuration does not name" },
    noWaitOption,
  ],
  examples: ["vm delete 100 --purge"],
  doing: (input) => `delete VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const answer = await client.pve.delete("/nodes/{node}/qemu/{vmid}", {
      ...place,
      ...(input.flag("purge") ? { purge: true } : {}),
      ...(input.flag("unreferencedDisks") ? { "destroy-unreferenced-disks": true } : {}),
    });
    await finishWork(cli, input, answer, `Deleted VM ${place.vmid}.`);
  },
};
