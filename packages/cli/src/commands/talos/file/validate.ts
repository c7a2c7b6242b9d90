import { errorKinds } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../../command.ts";
import { around, explaining, fileOf, fileOption, jsonOption, noteReasons, openFolder } from "../around.ts";

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;

export const talosValidate: CommandSpec = {
  name: "talos validate",
  summary: "check a cluster's file without touching anything",
  details: "All problems are told at once, each with its line, an id, its cause and what to do.",
  options: [fileOption, jsonOption],
  examples: ["talos validate", "talos validate -f prod.yaml --output json"],
  doing: (input) => `validate ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const [{ readClusterText }, { readCluster }] = await Promise.all([
        import("@gpve/talos/folder/cluster-folder.ts"),
        import("@gpve/talos/cluster/parse-cluster.ts"),
      ]);
      const file = fileOf(input);
      const read = readCluster(readClusterText(file, around(cli)), cli.io.env);
      if (read.cluster === undefined) {
        const rows = read.problems.map((problem) => ({ ...problem, where: `${file}:${problem.line}` }));
        if (!cli.out.forPeople) {
          const { explained } = await import("@gpve/talos/findings/explained.ts");
          cli.out.data({ file, valid: false, problems: read.problems.map(explained) });
        } else {
          cli.out.text(
            cli.out.table(rows, [
              { header: "WHERE", field: "where" },
              { header: "KEY", field: "key" },
              { header: "PROBLEM", field: "message", whole: true },
              { header: "ID", field: "id" },
            ]),
          );
          await noteReasons(cli, read.problems);
        }
        return errorKinds.invalid.exit;
      }
      const { machines, cluster, patches } = await openFolder(cli, input);
      const { checkPatches } = await import("@gpve/talos/render/check-patches.ts");
      checkPatches({ cluster, machines, patches });
      if (cli.out.forPeople) {
        const workers = machines.filter(({ role }) => role === "worker").length;
        cli.out.done(
          `${file} is valid: ${cluster.metadata.name}, ${counted(machines.length - workers, "control plane")} and ${counted(workers, "worker")}, Talos ${cluster.versions.talos}, Kubernetes ${cluster.versions.kubernetes}.`,
        );
      } else cli.out.data({ file, valid: true, problems: [] });
      return 0;
    }),
};
