import { existsSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { CommandSpec } from "../../../command.ts";
import { around, explaining, fileOf, fileOption, openFolder } from "../around.ts";

export const talosSecretsImport: CommandSpec = {
  name: "talos secrets import",
  summary: "take in a secrets bundle",
  details:
    "Of `talosctl gen secrets` or talhelper, plain or encrypted with age or SOPS. What was never applied is replaced and a copy kept; secrets of a running cluster are not touched.",
  arguments: [{ name: "<bundle>", about: "the file to read, or - for standard input" }],
  options: [fileOption],
  examples: ["talos secrets import secrets.yaml"],
  doing: (input) => `import secrets into ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const source = input.arg("bundle");
      const text = source === "-" ? await cli.io.readStdin() : readTextFile(resolve(cli.io.cwd, source));
      if (text === undefined) throw new AppError("object.not_found", `there is no file ${source}`);
      const place = await openFolder(cli, input);
      const { importSecrets } = await import("@gpve/talos/folder/secrets-store.ts");
      const copy = await importSecrets(place, text, source, around(cli));
      const kept = copy === undefined ? "" : ` What was there is kept as ${basename(copy)}.`;
      cli.out.done(`Imported into ${place.cluster.secrets.file}, encrypted.${kept}`);
      if (source !== "-") cli.out.note(`${source} is as it was; delete it if it is plain.`);
    }),
};

export const talosSecretsExport: CommandSpec = {
  name: "talos secrets export",
  summary: "write the secrets bundle in plain text, as talosctl reads it",
  arguments: [
    { name: "<bundle>", about: "the file to write (only you can read it), or - for standard output" },
  ],
  options: [fileOption],
  examples: ["talos secrets export secrets.yaml"],
  doing: (input) => `export the secrets of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const target = input.arg("bundle");
      const path = resolve(cli.io.cwd, target);
      if (target !== "-" && existsSync(path)) {
        throw new AppError("object.exists", `${target} is already there; it was left as it is`);
      }
      if (target !== "-" && !existsSync(dirname(path))) {
        throw new AppError(
          "object.not_found",
          `there is no folder ${dirname(path)} to write ${basename(path)} into`,
        );
      }
      const place = await openFolder(cli, input);
      const [{ openSecrets }, { writeBundle }] = await Promise.all([
        import("@gpve/talos/folder/secrets-store.ts"),
        import("@gpve/talos/secrets/bundle-file.ts"),
      ]);
      const { bundle } = await openSecrets(place, around(cli));
      if (target === "-") {
        cli.out.text(writeBundle(bundle));
        return;
      }
      writeFileAtomic(path, writeBundle(bundle));
      cli.out.done(`Wrote ${target} in plain text: whoever reads it owns the cluster.`);
    }),
};
