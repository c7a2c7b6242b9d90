import { given } from "@gpve/contracts/given.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";
import { plainText } from "../../output/cell.ts";
import { findVm, vmArgument } from "./find-vm.ts";

export const vmConfig: CommandSpec = {
  name: "vm config",
  summary: "show a VM's configuration",
  arguments: [vmArgument],
  options: [
    { flags: "--current", about: "what is in force, without changes that wait for a restart" },
    { flags: "--snapshot <name>", about: "the configuration of this snapshot" },
  ],
  examples: ["vm config 100"],
  doing: (input) => `show the configuration of VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const snapshot = input.text("snapshot");
    const config = await client.pve.get("/nodes/{node}/qemu/{vmid}/config", {
      ...place,
      ...(input.flag("current") ? { current: true } : {}),
      ...given({ snapshot }),
    });
    if (!cli.out.forPeople || !isObject(config)) {
      cli.out.data(config);
      return;
    }
    for (const key of Object.keys(config).toSorted()) cli.out.line(`${key}: ${plainText(config[key])}`);
  },
};
