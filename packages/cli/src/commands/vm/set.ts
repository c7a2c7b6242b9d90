import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { readParameters } from "../api/parameters.ts";
import { findVm, vmArgument } from "./find-vm.ts";

export const vmSet: CommandSpec = {
  name: "vm set",
  summary: "change a VM's configuration",
  details: "Keys and values are Proxmox's. What a running VM cannot take at once waits for its next start.",
  arguments: [vmArgument, { name: "[settings...]", about: "key=value, such as cores=4" }],
  options: [{ flags: "--delete <keys>", about: "remove these keys, separated by commas" }, noWaitOption],
  examples: [
    "vm set 100 cores=4 memory=4096",
    "vm set web net0=virtio,bridge=vmbr0",
    "vm set 100 --delete ide2",
  ],
  doing: (input) => `change VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const settings = await readParameters(cli, input.args("settings"));
    const gone = input.text("delete");
    if (Object.keys(settings).length === 0 && gone === undefined) {
      throw new AppError("request.invalid", "nothing to change; give key=value or --delete");
    }
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const params = { ...place, ...settings, ...given({ delete: gone }) };
    const { data } = await client.pve.call("POST", "/nodes/{node}/qemu/{vmid}/config", params);
    await finishWork(cli, input, data, `Changed VM ${place.vmid}.`);
  },
};
