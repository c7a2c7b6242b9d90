import { mkdirSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import { around, explaining, fileOf, fileOption, openFolder } from "./around.ts";
import { type AccessKind, usualPlaces } from "./merged-access.ts";

function accessCommand(kind: AccessKind, program: string): CommandSpec {
  return {
    name: `talos ${kind}`,
    summary: `print the ${kind} of the cluster, or merge it into yours`,
    details: `A new certificate is signed from the cluster's secrets, for a year. Merged, the cluster's context is selected; what belongs to other clusters stays.`,
    options: [
      fileOption,
      { flags: "--merge", about: `put it into ${program}'s own file` },
      { flags: "--into <file>", about: "put it into this file" },
    ],
    examples: [`talos ${kind} --merge`, `talos ${kind} > ${kind}`],
    doing: (input) => `make the ${kind} of ${fileOf(input)}`,
    run: (cli, input) => explaining(cli, () => run(cli, input, kind)),
  };
}

async function run(cli: Cli, input: Input, kind: AccessKind): Promise<void> {
  const place = await openFolder(cli, input);
  const [{ openSecrets }, { accessText, mergedAccess }] = await Promise.all([
    import("@gpve/talos/folder/secrets-store.ts"),
    import("@gpve/talos/render/access-text.ts"),
  ]);
  const { bundle } = await openSecrets(place, around(cli));
  const request = { ...place, secrets: bundle, now: cli.io.clock.now() };
  const into = input.text("into");
  if (into === undefined && !input.flag("merge")) {
    cli.out.text(await accessText(kind, request));
    return;
  }
  const path = into === undefined ? (usualPlaces(cli, kind)[0] ?? "") : resolve(cli.io.cwd, into);
  const { text, contextName } = await mergedAccess(kind, readTextFile(path) ?? "", request);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileAtomic(path, text);
  cli.out.done(`Merged into ${path}; the context is ${contextName}.`);
}

export const talosTalosconfig = accessCommand("talosconfig", "talosctl");
export const talosKubeconfig = accessCommand("kubeconfig", "kubectl");
