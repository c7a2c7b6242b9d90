import type { Drift } from "@gpve/talos/status/drift.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { applyPlace, doingOptions, yesOption } from "./apply.ts";
import { explaining, fileOf, fileOption, jsonOption, openFolder } from "./around.ts";
import { insideOptions } from "./checks.ts";
import { secretsToLook, withOpenCluster } from "./open.ts";
import { downtimeOption } from "./plan.ts";

export const talosDrift: CommandSpec = {
  name: "talos drift",
  summary: "tell where the cluster is no longer what its file says",
  details:
    "Guests, settings, configurations, versions, nodes and members of etcd that somebody or something changed. Ends with 2 when there is any. With --mend the file is applied.",
  options: [
    fileOption,
    { flags: "--mend", about: "bring the cluster back to its file" },
    downtimeOption,
    yesOption,
    ...doingOptions,
    ...insideOptions,
    jsonOption,
  ],
  examples: ["talos drift", "talos drift --mend", "talos drift --output json"],
  doing: (input) => `look for drift of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const { driftOf } = await import("@gpve/talos/status/drift.ts");
      const secrets = await secretsToLook(cli, place);
      const found = await withOpenCluster(cli, place, secrets, async ({ cluster }) =>
        driftOf(cluster.desired(), await cluster.observe()),
      );
      const isMended = input.flag("mend");
      if (cli.out.forPeople) print(cli, found);
      else if (!isMended) cli.out.data({ ok: found.length === 0, drift: found });
      if (found.length === 0) return 0;
      return isMended ? applyPlace(cli, input, place) : 2;
    }),
};

function print(cli: Cli, found: readonly Drift[]): void {
  const { yellow } = cli.out.colours;
  for (const { machine, kind, detail } of found) cli.out.line(yellow(`${machine}: ${kind}: ${detail}`));
  if (found.length === 0) cli.out.done("No drift: the cluster is what its file says.");
  else cli.out.done(`${found.length} differences; gpvectl talos drift --mend takes them back.`);
}
