import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../../command.ts";
import { finishWork, noWaitOption } from "../../../follow-result.ts";
import { findVm, vmArgument } from "../find-vm.ts";

export const vmSnapshotCreate: CommandSpec = {
  name: "vm snapshot create",
  summary: "take a snapshot of a VM",
  arguments: [vmArgument, { name: "<name>", about: "the snapshot's name" }],
  options: [
    { flags: "--memory", about: "save the memory of a running VM too" },
    { flags: "--description <text>", about: "free text" },
    noWaitOption,
  ],
  examples: ["vm snapshot create 100 before-upgrade --memory"],
  doing: (input) => `take snapshot ${input.arg("name")} of VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const answer = await client.pve.post("/nodes/{node}/qemu/{vmid}/snapshot", {
      ...place,
      snapname: input.arg("name"),
      ...given({ description: input.text("description") }),
      ...(input.flag("memory") ? { vmstate: true } : {}),
    });
    await finishWork(cli, input, answer, `Took snapshot ${input.arg("name")} of VM ${place.vmid}.`);
  },
};
