import { existsSync, mkdirSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { Cli, CommandSpec } from "../../../command.ts";
import type { Input } from "../../../input.ts";
import { ageRecipients } from "./age-recipients.ts";
import { explaining } from "../around.ts";

export const talosImport: CommandSpec = {
  name: "talos import",
  summary: "write a cluster.yaml out of another tool's file",
  details:
    "Reads talhelper's talconfig.yaml, a terraform.tfvars (.json too), or a state with machines of the bpg provider. Machines keep their names, addresses, MACs and VMIDs. What could not be taken over or had to be assumed stands at the head of the file.",
  arguments: [{ name: "<source>", about: "the file to read" }],
  options: [
    { flags: "--out <file>", about: "the file to write", required: true },
    {
      flags: "--provider <type>",
      about: "what runs the machines (pve-api)",
      choices: ["gpve", "pve-api", "qm"],
    },
    { flags: "--endpoint <url>", about: "the platform's API" },
  ],
  examples: [
    "talos import talconfig.yaml --out cluster.yaml",
    "talos import terraform.tfstate --out cluster.yaml",
  ],
  doing: (input) => `import ${input.arg("source")}`,
  run: (cli, input) => explaining(cli, () => run(cli, input)),
};

async function run(cli: Cli, input: Input): Promise<void> {
  const source = input.arg("source");
  const out = input.text("out") ?? "";
  const text = readTextFile(resolve(cli.io.cwd, source));
  if (text === undefined) throw new AppError("object.not_found", `there is no file ${source}`);
  const path = resolve(cli.io.cwd, out);
  const [{ importCluster }, { writeImported }, { parseCluster }] = await Promise.all([
    import("@gpve/talos/import/import-cluster.ts"),
    import("@gpve/talos/import/write-imported.ts"),
    import("@gpve/talos/cluster/parse-cluster.ts"),
  ]);
  const [from, to] = [dirname(resolve(cli.io.cwd, source)), dirname(path)];
  const cluster = importCluster(text, source, cli.io.env, {
    read: (name) => readTextFile(resolve(from, name)),
    nameOf: (name) => (from === to || isAbsolute(name) ? name : relative(to, resolve(from, name))),
  });
  const written = writeImported(cluster, {
    source,
    provider: (input.text("provider") ?? "pve-api") as "pve-api",
    endpoint: input.text("endpoint"),
    recipients: await ageRecipients(cli),
  });
  // A file that would be refused is not written.
  parseCluster(written.text, out, cli.io.env);
  const files = [
    [path, written.text],
    ...[...cluster.patchFiles].map(([name, patch]) => [join(dirname(path), name), patch]),
  ];
  for (const [file = ""] of files) {
    if (existsSync(file))
      throw new AppError("object.exists", `${file} is already there; nothing was written`);
  }
  for (const [file = "", content = ""] of files) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileAtomic(file, content, 0o644);
  }
  for (const note of [...cluster.notes, ...written.assumed]) cli.out.note(note);
  cli.out.done(`Wrote ${out}. Look through it, then: gpvectl talos validate -f ${out}`);
}
