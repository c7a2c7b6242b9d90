import { resolve } from "node:path";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { CommandSpec } from "../../../command.ts";
import { around, explaining, fileOf, fileOption } from "../around.ts";

export const talosSet: CommandSpec = {
  name: "talos set",
  summary: "change values of a cluster's file; comments stay",
  details: "A change that would make the file invalid is refused, and the file stays as it was.",
  arguments: [
    {
      name: "<change...>",
      about: "KEY=VALUE, or KEY- to take it out; items of lists by name, a key with dots in quotes",
    },
  ],
  options: [fileOption],
  examples: [
    "talos set controlPlane.count=3 endpoint.vip=10.0.0.9",
    "talos set pools.worker.count=4",
    `talos set 'pools.worker.labels."example.org/tier"=web'`,
  ],
  doing: (input) => `change ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const [{ readClusterText }, { editCluster, parseEdit }] = await Promise.all([
        import("@gpve/talos/folder/cluster-folder.ts"),
        import("@gpve/talos/edit/edit-cluster.ts"),
      ]);
      const file = fileOf(input);
      const before = readClusterText(file, around(cli));
      const after = editCluster(before, input.args("change").map(parseEdit), file, cli.io.env);
      if (after !== before) writeFileAtomic(resolve(cli.io.cwd, file), after, 0o644);
      cli.out.done(after === before ? `${file} has these values already.` : `Changed ${file}.`);
    }),
};
