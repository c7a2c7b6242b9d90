import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { wholeNumber } from "../../input.ts";
import { findVm, vmArgument } from "./find-vm.ts";

export const vmClone: CommandSpec = {
  name: "vm clone",
  summary: "make a copy of a VM or template",
  details: "Templates give linked clones, which share their disks, unless --full asks for copies.",
  arguments: [vmArgument, { name: "[name]", about: "name of the copy" }],
  options: [
    {
      flags: "--vmid <number>",
      about: "VMID of the copy (the next free one)",
      parse: wholeNumber(100, 999_999_999),
    },
    { flags: "--name <name>", about: "name of the copy, the other way to say it" },
    { flags: "--full", about: "copy all disks" },
    { flags: "--snapshot <name>", about: "as of this snapshot" },
    { flags: "--storage <name>", about: "with --full: where the copies go" },
    { flags: "--target <node>", about: "on this node" },
    { flags: "--pool <name>", about: "pool of the copy" },
    noWaitOption,
  ],
  examples: ["vm clone debian12 web", "vm clone debian12 web --vmid 101 --full"],
  doing: (input) => `clone VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const newid = input.number("vmid") ?? Number(await client.pve.get("/cluster/nextid"));
    const answer = await client.pve.post("/nodes/{node}/qemu/{vmid}/clone", {
      ...place,
      newid,
      ...given({
        name: input.optionalArg("name") ?? input.text("name"),
        snapname: input.text("snapshot"),
        storage: input.text("storage"),
        target: input.text("target"),
        pool: input.text("pool"),
      }),
      ...(input.flag("full") ? { full: true } : {}),
    });
    await finishWork(cli, input, answer, `Cloned VM ${place.vmid} as ${newid}.`);
  },
};
