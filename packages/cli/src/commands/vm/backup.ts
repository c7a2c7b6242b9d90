import { given } from "@gpve/contracts/given.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { findVm, vmArgument } from "./find-vm.ts";
import { serverDefaults } from "./server-defaults.ts";

export const vmBackup: CommandSpec = {
  name: "vm backup",
  summary: "back up a VM",
  details:
    "A running VM goes on running (mode snapshot). The archives: gpvectl storage content STORAGE --content backup.",
  arguments: [vmArgument],
  options: [
    {
      flags: "--storage <name>",
      about: "where the archive goes (storage.defaults.backup of the server, local)",
    },
    {
      flags: "--mode <mode>",
      about: "snapshot leaves a running VM running, suspend pauses it, stop shuts it down meanwhile",
      choices: ["snapshot", "suspend", "stop"],
    },
    { flags: "--compress <method>", about: "how to pack it (zstd)", choices: ["zstd", "gzip", "lzo", "0"] },
    {
      flags: "--notes <text>",
      about: "notes; {{guestname}}, {{vmid}}, {{node}} and {{cluster}} are filled in",
    },
    { flags: "--protected", about: "never remove it by pruning" },
    {
      flags: "--incremental",
      about: "save only what changed since the last backup there, where that is known",
    },
    { flags: "--prune <policy>", about: "which older backups to keep, such as keep-last=3,keep-daily=7" },
    noWaitOption,
  ],
  examples: [
    "vm backup 100",
    "vm backup 100 --incremental",
    "vm backup web --mode stop --notes 'before the move' --protected",
  ],
  doing: (input) => `back up VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const { vmid, node } = await findVm(client, input.arg("vm"));
    if (input.flag("incremental")) {
      if (input.text("prune") !== undefined)
        throw new AppError("request.invalid", "--prune comes with full backups: leave out --incremental");
      const compress = input.text("compress");
      const made = await client.v1.post(`nodes/${encodeURIComponent(node)}/vms/${vmid}/backup`, {
        incremental: true,
        ...given({
          storage: input.text("storage"),
          mode: input.text("mode"),
          compress: compress === "0" ? "none" : compress,
          notes: input.text("notes"),
        }),
        ...(input.flag("protected") ? { protected: true } : {}),
      });
      await finishWork(cli, input, isObject(made) ? made["task"] : undefined, `Backed up VM ${vmid}.`);
      return;
    }
    const { data } = await client.pve.call("POST", "/nodes/{node}/vzdump", {
      node,
      vmid: String(vmid),
      // Notes and a policy mean something on a storage only, so PVE's method wants its name.
      storage: input.text("storage") ?? (await serverDefaults(client, node)).backup,
      compress: input.text("compress") ?? "zstd",
      ...given({
        mode: input.text("mode"),
        "notes-template": input.text("notes"),
        "prune-backups": input.text("prune"),
      }),
      ...(input.flag("protected") ? { protected: true } : {}),
    });
    await finishWork(cli, input, data, `Backed up VM ${vmid}.`);
  },
};
