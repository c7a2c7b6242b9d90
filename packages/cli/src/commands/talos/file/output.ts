import type { CommandSpec } from "../../../command.ts";
import { around, explaining, fileOf, fileOption, jsonOption, openFolder } from "../around.ts";

export const talosOutput: CommandSpec = {
  name: "talos output",
  summary: "print facts about the cluster for scripts",
  details:
    "Everything by name, or one value alone with --raw. talosconfig and kubeconfig are printed only when they are asked for by name, also by those that modules of Terraform have for them, like talos_client_configuration.",
  options: [
    fileOption,
    jsonOption,
    { flags: "--raw <name>", about: "this value alone, without quotes; also written -raw" },
  ],
  examples: ["talos output", "talos output --json", "talos output --raw talosconfig > ~/.talos/config"],
  doing: (input) => `print the outputs of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const { clusterOutputs, isSensitive, outputName, rawOutput, sensitiveOutputs } =
        await import("@gpve/talos/output/cluster-outputs.ts");
      const outputs = clusterOutputs(place);
      const asked = input.text("raw");
      const raw = asked === undefined ? undefined : outputName(asked);
      if (raw !== undefined && isSensitive(raw)) {
        const [{ openSecrets }, { accessText }] = await Promise.all([
          import("@gpve/talos/folder/secrets-store.ts"),
          import("@gpve/talos/render/access-text.ts"),
        ]);
        const { bundle } = await openSecrets(place, around(cli));
        const request = { ...place, secrets: bundle, now: cli.io.clock.now() };
        cli.out.text(await accessText(raw, request));
      } else if (raw !== undefined) cli.out.text(rawOutput(outputs, raw));
      else if (!cli.out.forPeople) cli.out.data(outputs);
      else {
        const rows = Object.keys(outputs).map((name) => ({ name, value: rawOutput(outputs, name) }));
        const hidden = sensitiveOutputs.map((name) => ({ name, value: "(secret: --raw prints it)" }));
        for (const { name, value } of [...rows, ...hidden]) {
          cli.out.line(`${cli.out.colours.bold(name)} = ${value.replaceAll("\n", ", ")}`);
        }
      }
    }),
};
