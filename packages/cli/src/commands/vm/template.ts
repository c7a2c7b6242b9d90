import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { findVm, vmArgument } from "./find-vm.ts";

export const vmTemplate: CommandSpec = {
  name: "vm template",
  summary: "make a stopped VM a template, for good",
  details: "Its disks become read-only and are shared by the clones made of it; it can no longer be started.",
  arguments: [vmArgument],
  options: [noWaitOption],
  examples: ["vm template debian12"],
  doing: (input) => `make VM ${input.arg("vm")} a template`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const answer = await client.pve.post("/nodes/{node}/qemu/{vmid}/template", { ...place });
    await finishWork(cli, input, answer, `VM ${place.vmid} is a template now.`);
  },
};
