import { resolve } from "node:path";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import { applyPlace, doingOptions, yesOption } from "./apply.ts";
import { around, explaining, fileOf, fileOption } from "./around.ts";
import { insideOptions } from "./checks.ts";
import { downtimeOption } from "./plan.ts";

/** The file is changed first: it says what the cluster is, also when the apply is stopped. */
async function editAndApply(cli: Cli, input: Input, edits: readonly string[]): Promise<number> {
  const [{ clusterFolderOf, readClusterText }, { editCluster, parseEdit }] = await Promise.all([
    import("@gpve/talos/folder/cluster-folder.ts"),
    import("@gpve/talos/edit/edit-cluster.ts"),
  ]);
  const file = fileOf(input);
  const before = readClusterText(file, around(cli));
  const after = editCluster(before, edits.map(parseEdit), file, cli.io.env);
  // What was decided before may not go with it: then nothing is written.
  const place = clusterFolderOf(file, after, around(cli));
  if (after !== before) writeFileAtomic(resolve(cli.io.cwd, file), after, 0o644);
  cli.out.note(after === before ? `${file} says so already.` : `Changed ${file}: ${edits.join(", ")}.`);
  return applyPlace(cli, input, place);
}

export const talosUpgrade: CommandSpec = {
  name: "talos upgrade",
  summary: "upgrade Talos or Kubernetes, machine by machine",
  details:
    "Writes the version into the file and applies it: a canary of each pool first, then control planes with etcd's leader last, then the other workers. Stops at the first machine that does not come up well.",
  arguments: [
    { name: "<what>", about: "talos or kubernetes", choices: ["talos", "kubernetes"] },
    { name: "<version>", about: "v1.13.10" },
  ],
  options: [fileOption, downtimeOption, yesOption, ...doingOptions, ...insideOptions],
  examples: ["talos upgrade talos v1.13.10", "talos upgrade kubernetes v1.36.4"],
  doing: (input) => `upgrade ${input.arg("what")} of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, () =>
      editAndApply(cli, input, [`versions.${input.arg("what")}=${input.arg("version")}`]),
    ),
};

export const talosScale: CommandSpec = {
  name: "talos scale",
  summary: "change how many machines a pool has",
  details: "Writes the count into the file and applies it. Control planes are the pool cp.",
  arguments: [{ name: "<change...>", about: "POOL=COUNT" }],
  options: [fileOption, downtimeOption, yesOption, ...doingOptions, ...insideOptions],
  examples: ["talos scale worker=4", "talos scale cp=3"],
  doing: (input) => `scale ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, () =>
      editAndApply(
        cli,
        input,
        input.args("change").map((change) => {
          const [pool = "", count = ""] = change.split("=");
          return pool === "cp" ? `controlPlane.count=${count}` : `pools.${pool}.count=${count}`;
        }),
      ),
    ),
};
