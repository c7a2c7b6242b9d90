import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { applyPlace, doingOptions, yesOption } from "./apply.ts";
import { explaining, fileOf, fileOption, openFolder } from "./around.ts";
import { insideOptions } from "./checks.ts";
import { downtimeOption } from "./plan.ts";

export const talosReset: CommandSpec = {
  name: "talos reset",
  summary: "wipe machines and configure them anew, one after another",
  details:
    "Each is drained, taken out of etcd, loses its configuration and its data, and joins again as a new one; its guest, disks, address and VMID stay. The next one only goes when all is well. What runs on a machine that cannot be reached is not lost: it is refused.",
  arguments: [{ name: "<machine...>", about: "their names" }],
  options: [fileOption, downtimeOption, yesOption, ...doingOptions, ...insideOptions],
  examples: ["talos reset prod-worker-2"],
  doing: (input) => `reset machines of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const names = [...new Set(input.args("machine"))];
      const unknown = names.filter((name) => place.machines.every((machine) => machine.name !== name));
      if (unknown.length > 0)
        throw new AppError("object.not_found", `the file has no machine ${unknown.join(", ")}`);
      return applyPlace(cli, input, place, ({ cluster }) => {
        cluster.change((lock) => ({ ...lock, resetting: names }));
      });
    }),
};
