import type { CommandSpec } from "../../../command.ts";
import { finishWork, noWaitOption } from "../../../follow-result.ts";
import { findVm, vmArgument } from "../find-vm.ts";

export const vmSnapshotRollback: CommandSpec = {
  name: "vm snapshot rollback",
  summary: "set a VM back to a snapshot; what came after is lost",
  arguments: [vmArgument, { name: "<name>", about: "the snapshot's name" }],
  options: [{ flags: "--start", about: "start the VM afterwards" }, noWaitOption],
  examples: ["vm snapshot rollback 100 before-upgrade --start"],
  doing: (input) => `set VM ${input.arg("vm")} back to ${input.arg("name")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const answer = await client.pve.post("/nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback", {
      ...place,
      snapname: input.arg("name"),
      ...(input.flag("start") ? { start: true } : {}),
    });
    await finishWork(cli, input, answer, `VM ${place.vmid} is back at ${input.arg("name")}.`);
  },
};
