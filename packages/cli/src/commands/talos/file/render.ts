import { mkdirSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { CommandSpec } from "../../../command.ts";
import { around, explaining, fileOf, fileOption, openFolder } from "../around.ts";

export const talosRender: CommandSpec = {
  name: "talos render",
  summary: "write the machine configurations and access files",
  details:
    "controlplane.yaml, worker.yaml, nodes/NAME.yaml, talosconfig, kubeconfig and talhelper's talconfig.yaml. They hold secrets: only you can read them, and git ignores the folder.",
  options: [
    fileOption,
    { flags: "--out <dir>", about: "the folder to write to, made when it is not there", required: true },
    { flags: "--origins", about: "say behind every value of a configuration which file it comes from" },
  ],
  examples: ["talos render --out rendered", "talos render --out rendered --origins"],
  doing: (input) => `render ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const [{ openSecrets }, { renderFiles }] = await Promise.all([
        import("@gpve/talos/folder/secrets-store.ts"),
        import("@gpve/talos/render/render-files.ts"),
      ]);
      const { bundle, isNew } = await openSecrets(place, around(cli));
      const files = await renderFiles({
        ...place,
        secrets: bundle,
        now: cli.io.clock.now(),
        hasOrigins: input.flag("origins"),
      });
      if (isNew) cli.out.note(`Made the cluster's secrets: ${place.cluster.secrets.file}, encrypted.`);
      const out = resolve(cli.io.cwd, input.text("out") ?? ".");
      for (const { path, text } of [{ path: ".gitignore", text: "*\n" }, ...files]) {
        mkdirSync(dirname(join(out, path)), { recursive: true, mode: 0o700 });
        writeFileAtomic(join(out, path), text);
      }
      const written = new Set(files.map(({ path }) => path));
      const old = readdirSync(join(out, "nodes")).filter((name) => !written.has(`nodes/${name}`));
      if (old.length > 0)
        cli.out.note(`Not of this cluster, left as they are: nodes/${old.join(", nodes/")}.`);
      if (cli.out.forPeople) cli.out.done(`Wrote ${files.length} files to ${input.text("out")}.`);
      else cli.out.data(files.map(({ path }) => path));
    }),
};
