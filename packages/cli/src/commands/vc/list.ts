import { AppError } from "@gpve/contracts/errors.ts";
import { virtualClusterKind } from "@gpve/contracts/v1/kinds/virtual-cluster.ts";
import type { CommandSpec } from "../../command.ts";
import { showRows, watchOptions } from "../../watch.ts";
import { tenantOption, vcArgument, vcCollection, vcPath } from "./find-vc.ts";

export const vcList: CommandSpec = {
  name: "vc list",
  summary: "list virtual clusters",
  options: [
    { flags: "--tenant <tenant>", about: "only those of this tenant (all that may be seen)" },
    ...watchOptions,
  ],
  examples: ["vc list", "vc list --tenant shop -o wide", "vc list --watch"],
  doing: () => "list virtual clusters",
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const tenant = input.text("tenant");
    await showRows(cli, input, virtualClusterKind.columns, "No virtual clusters.", async () => {
      const { items } = await v1.list(vcCollection(tenant));
      return items;
    });
  },
};

export const vcDelete: CommandSpec = {
  name: "vc delete",
  summary: "delete a virtual cluster with all that is in it",
  arguments: [vcArgument],
  options: [
    tenantOption,
    { flags: "--yes", about: "yes, all of it" },
    { flags: "--volumes", about: "also what its persistent volumes hold" },
  ],
  examples: ["vc delete demo --yes", "vc delete demo --yes --volumes"],
  doing: (input) => `delete virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const name = input.arg("name");
    if (!input.flag("yes"))
      throw new AppError(
        "request.invalid",
        `this deletes ${name} and all that is in it; say --yes if that is meant`,
      );
    const { v1 } = await cli.client();
    await v1.raw("DELETE", `${vcPath(input)}${input.flag("volumes") ? "?force=1" : ""}`);
    cli.out.done(`Deleted virtual cluster ${name}.`);
  },
};
