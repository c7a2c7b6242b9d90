import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { applyPlace, doingOptions, yesOption } from "./apply.ts";
import { explaining, fileOf, fileOption, openFolder } from "./around.ts";
import { insideOptions } from "./checks.ts";
import { downtimeOption } from "./plan.ts";

export const talosReplace: CommandSpec = {
  name: "talos replace",
  summary: "make machines anew, one after another",
  details:
    "Each is drained, taken out of etcd, deleted and made again from the file's image, and the next one only goes when all is well. With --all every machine, workers first: an upgrade without upgrading anything.",
  arguments: [{ name: "[machine...]", about: "their names" }],
  options: [
    fileOption,
    { flags: "--all", about: "every machine of the cluster" },
    downtimeOption,
    yesOption,
    ...doingOptions,
    ...insideOptions,
  ],
  examples: ["talos replace prod-worker-2", "talos replace --all"],
  doing: (input) => `replace machines of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const named = input.args("machine");
      const ordered = place.machines.toSorted((a, b) =>
        a.role === b.role ? 0 : a.role === "worker" ? -1 : 1,
      );
      const names = input.flag("all") ? ordered.map(({ name }) => name) : named;
      if (names.length === 0)
        throw new AppError("request.invalid", "name machines, or all of them with --all");
      const unknown = names.filter((name) => place.machines.every((machine) => machine.name !== name));
      if (unknown.length > 0)
        throw new AppError("object.not_found", `the file has no machine ${unknown.join(", ")}`);
      return applyPlace(cli, input, place, ({ cluster }) => {
        cluster.change((lock) => ({ ...lock, replacing: [...names] }));
      });
    }),
};
