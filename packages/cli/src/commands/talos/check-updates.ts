import type { CommandSpec } from "../../command.ts";
import { explaining, fileOf, fileOption, jsonOption, openFolder } from "./around.ts";

export const talosCheckUpdates: CommandSpec = {
  name: "talos check-updates",
  summary: "tell which newer versions there are, and the way to them",
  details:
    "Asks the file's Image Factory, or its mirrors, for releases of Talos. The way goes through the newest patch of every minor; Kubernetes is told as far as the cluster's Talos runs it. Nothing is changed. Ends with 2 when there is something newer.",
  options: [fileOption, jsonOption],
  examples: ["talos check-updates", "talos check-updates --output json"],
  doing: (input) => `look for updates of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const { checkUpdates } = await import("@gpve/talos/image/check-updates.ts");
      const updates = await checkUpdates(place.cluster, fetch);
      const { talos, kubernetes } = updates;
      const isBehind = talos.way.length + kubernetes.way.length > 0;
      if (!cli.out.forPeople) {
        cli.out.data({ ...updates, isBehind });
        return isBehind ? 2 : 0;
      }
      cli.out.line(way("Talos", talos.now, talos.way));
      for (const version of talos.unknown)
        cli.out.line(`Talos ${version} is released; this gpvectl cannot make configurations for it yet`);
      cli.out.line(way("Kubernetes", kubernetes.now, kubernetes.way));
      cli.out.line(`This Talos runs Kubernetes ${kubernetes.oldest} to ${kubernetes.newest}.`);
      const [next] = talos.way;
      if (next !== undefined) cli.out.done(`Next: gpvectl talos upgrade talos ${next} -f ${place.file}`);
      return isBehind ? 2 : 0;
    }),
};

function way(what: string, now: string, steps: readonly string[]): string {
  return steps.length === 0 ? `${what} ${now} is the newest` : `${what} ${[now, ...steps].join(" -> ")}`;
}
