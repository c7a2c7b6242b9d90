import type { CommandSpec } from "../../command.ts";
import { explaining, fileOf, fileOption, openFolder } from "./around.ts";
import { needSecrets, withOpenCluster } from "./open.ts";

export const talosAdopt: CommandSpec = {
  name: "talos adopt",
  summary: "rebuild lost state from what is there",
  details:
    "Who has which VMID and address, and that etcd was begun, is read from tags, identities and the machines themselves. It needs the cluster's file and secrets; it changes nothing on the platform.",
  options: [fileOption],
  examples: ["talos adopt"],
  doing: (input) => `adopt the cluster of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const secrets = await needSecrets(cli, place);
      await withOpenCluster(cli, place, secrets, async ({ cluster }) => {
        await cluster.adopt();
        const count = Object.keys(cluster.lock.machines).length;
        cli.out.done(
          `Adopted ${count} machines. Look at what would be done: gpvectl talos plan -f ${place.file}`,
        );
      });
    }),
};
