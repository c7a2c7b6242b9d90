import type { CommandSpec } from "../../command.ts";
import { applyPlace, doingOptions, yesOption } from "./apply.ts";
import { explaining, fileOf, fileOption, openFolder } from "./around.ts";
import { insideOptions } from "./checks.ts";
import { downtimeOption } from "./plan.ts";

export const talosRotateCa: CommandSpec = {
  name: "talos rotate-ca",
  summary: "replace the cluster's certificate authorities while it runs",
  details:
    "In three phases, each over on every machine before the next: all accept the new authority, all issue with it, nobody accepts the old one. One machine after another, control planes first and only while etcd is well; the old authority goes only when everybody was reached without it. Stopped at any point, also by kill -9, this command or apply goes on. Both authorities unless one is named; etcd's own stays. Fetch talosconfig and kubeconfig anew afterwards, and restart pods that keep the old authority of Kubernetes.",
  options: [
    fileOption,
    { flags: "--talos", about: "the authority of Talos' API" },
    { flags: "--kubernetes", about: "the authority of Kubernetes' API" },
    downtimeOption,
    yesOption,
    ...doingOptions,
    ...insideOptions,
  ],
  examples: ["talos rotate-ca", "talos rotate-ca --talos"],
  doing: (input) => `replace the authorities of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const isBoth = input.flag("talos") === input.flag("kubernetes");
      const choice = {
        talos: isBoth || input.flag("talos"),
        kubernetes: isBoth || input.flag("kubernetes"),
      };
      return applyPlace(cli, input, place, async ({ cluster }) => {
        const { rotation } = cluster.desired();
        if (rotation !== undefined)
          cli.out.note(`A rotation is under way (${rotation.phase}): it goes on, none is begun.`);
        await cluster.rotate(choice);
      });
    }),
};
