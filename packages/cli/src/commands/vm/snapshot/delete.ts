import type { CommandSpec } from "../../../command.ts";
import { finishWork, noWaitOption } from "../../../follow-result.ts";
import { findVm, vmArgument } from "../find-vm.ts";

export const vmSnapshotDelete: CommandSpec = {
  name: "vm snapshot delete",
  summary: "delete a snapshot; the VM stays as it is",
  arguments: [vmArgument, { name: "<name>", about: "the snapshot's name" }],
  options: [
    { flags: "--force", about: "forget it even when its disk parts cannot be removed" },
    noWaitOption,
  ],
  examples: ["vm snapshot delete 100 before-upgrade"],
  doing: (input) => `delete snapshot ${input.arg("name")} of VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const answer = await client.pve.delete("/nodes/{node}/qemu/{vmid}/snapshot/{snapname}", {
      ...place,
      snapname: input.arg("name"),
      ...(input.flag("force") ? { force: true } : {}),
    });
    await finishWork(cli, input, answer, `Deleted snapshot ${input.arg("name")} of VM ${place.vmid}.`);
  },
};
