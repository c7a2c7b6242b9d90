import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import { yesOption } from "./apply.ts";
import { around, explaining, fileOf, fileOption, openFolder } from "./around.ts";
import { handOverVip } from "./hand-over.ts";
import { takeOverOption } from "./mark.ts";
import { needSecrets, withOpenCluster } from "./open.ts";
import { printChecks } from "./status.ts";

const DEFAULT_OUT = "haproxy.cfg";

export const talosSwitch: CommandSpec = {
  name: "talos switch",
  summary: "turn a cluster's load balancer or VIP to another cluster, or back",
  details:
    "Where both files name the same endpoint.front, its VIP is handed over: the old cluster's control planes lose it, and only when none has it does the new cluster get it; both files are changed accordingly, and a switch that was stopped goes on with the next. Blue and green: the other cluster runs beside, with machines, addresses, VMIDs and secrets of its own. It is checked as `talos status` does; only one that is well, and whose certificate names the load balancer, is switched to. The configuration of haproxy is written, and what was there is kept beside it as FILE.before. The old cluster is not touched: it runs until it is destroyed, and the way back is the same command with its own file.",
  arguments: [{ name: "to", about: "the file of the cluster to switch to" }],
  options: [
    fileOption,
    { flags: "--out <file>", about: `haproxy's configuration (${DEFAULT_OUT})` },
    yesOption,
    takeOverOption,
  ],
  examples: [
    "talos switch green.yaml -f blue.yaml",
    "talos switch blue.yaml -f blue.yaml --out /etc/haproxy/haproxy.cfg",
  ],
  doing: (input) => `switch the load balancer of ${fileOf(input)}`,
  run: (cli, input) => explaining(cli, () => run(cli, input)),
};

async function run(cli: Cli, input: Input): Promise<number> {
  const [{ openClusterFolder }, { clusterStatus }, { switchedFront }] = await Promise.all([
    import("@gpve/talos/folder/cluster-folder.ts"),
    import("@gpve/talos/status/cluster-status.ts"),
    import("@gpve/talos/engine/switch-front.ts"),
  ]);
  const front = await openFolder(cli, input);
  if (front.cluster.endpoint.front !== undefined) return handOverVip(cli, input, front);
  const target = openClusterFolder(input.arg("to"), around(cli));
  const secrets = await needSecrets(cli, target);
  const { checks } = await withOpenCluster(cli, target, secrets, async ({ cluster }) =>
    clusterStatus(cluster.desired(), await cluster.observe(), cluster.lock, secrets),
  );
  if (cli.out.forPeople) printChecks(cli, { checks });
  const text = switchedFront({ front, target, checks });
  const named = input.text("out") ?? DEFAULT_OUT;
  const path = resolve(cli.io.cwd, named);
  const { name } = target.cluster.metadata;
  const question = `Turn ${front.cluster.endpoint.loadBalancer?.address} to ${name} in ${named}? Only yes is taken: `;
  if (!input.flag("yes") && (await cli.io.ask(question)).trim() !== "yes") {
    cli.out.done("Nothing was changed.");
    return 1;
  }
  if (existsSync(path)) writeFileAtomic(`${path}.before`, readFileSync(path, "utf8"), 0o644);
  writeFileAtomic(path, text, 0o644);
  if (cli.out.forPeople)
    cli.out.done(
      `Wrote ${named}: reload haproxy with it. ${front.cluster.metadata.name} runs on until you destroy it.`,
    );
  else cli.out.data({ ok: true, to: name, file: named });
  return 0;
}
