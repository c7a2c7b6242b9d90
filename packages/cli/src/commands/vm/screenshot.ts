import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { findVm, vmArgument } from "./find-vm.ts";

export const vmScreenshot: CommandSpec = {
  name: "vm screenshot",
  summary: "save a picture of a VM's screen",
  arguments: [vmArgument, { name: "<file>", about: "where the PNG goes" }],
  examples: ["vm screenshot web web.png"],
  doing: (input) => `take a picture of VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const { vmid, node } = await findVm(client, input.arg("vm"));
    const png = await client.v1.bytes(`nodes/${encodeURIComponent(node)}/vms/${vmid}/screenshot`);
    const path = resolve(cli.io.cwd, input.arg("file"));
    await writeFile(path, png).catch((cause: unknown) => {
      throw new AppError("config.invalid", `cannot write ${path}`, { cause });
    });
    if (!cli.out.forPeople) cli.out.data({ vmid, file: path, bytes: png.length });
    cli.out.done(`The screen of VM ${vmid} is in ${path}.`);
  },
};
