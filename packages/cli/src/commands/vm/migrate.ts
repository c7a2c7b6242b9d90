// Moves a VM to another node.
import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { wholeNumber } from "../../input.ts";
import { isOrderToHa, untilMovedByHa } from "./moved-by-ha.ts";
import { findVm, vmArgument } from "./find-vm.ts";

export const vmMigrate: CommandSpec = {
  name: "vm migrate",
  summary: "move a virtual machine to another node, running or stopped",
  arguments: [vmArgument, { name: "<node>", about: "where it is to go" }],
  options: [
    { flags: "--target-storage <map>", about: "where its local disks go: a storage, or from:to,from:to" },
    { flags: "--bwlimit <kib>", about: "no faster than this, in KiB/s", parse: wholeNumber(1) },
    {
      flags: "--compression <on|off>",
      about: "send its memory compressed, or not; by default between regions only",
    },
    noWaitOption,
  ],
  examples: [
    "vm migrate 100 n2",
    "vm migrate web n3 --target-storage local:fast",
    "vm migrate web n3 --compression on",
  ],
  doing: (input) => `move VM ${input.arg("vm")} to node ${input.arg("node")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const status = await client.pve.get("/nodes/{node}/qemu/{vmid}/status/current", { ...place });
    const isRunning = (status as { status?: string }).status === "running";
    const { data: answer } = await client.pve.call("POST", "/nodes/{node}/qemu/{vmid}/migrate", {
      ...place,
      target: input.arg("node"),
      ...(isRunning ? { online: true, "with-local-disks": true } : {}),
      ...given({
        targetstorage: input.text("targetStorage"),
        bwlimit: input.number("bwlimit"),
        // Not one of Proxmox's parameters.
        compression: input.text("compression"),
      }),
    });
    const done = `Moved VM ${place.vmid} to node ${input.arg("node")}.`;
    if (!isOrderToHa(answer) || !input.flag("wait")) return finishWork(cli, input, answer, done);
    await finishWork(cli, input, answer, `HA is asked to move VM ${place.vmid}.`);
    const now = await untilMovedByHa(cli, place.node, place.vmid);
    cli.out.done(`VM ${place.vmid} is on node ${now} now.`);
  },
};
