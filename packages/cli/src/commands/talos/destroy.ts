import type { CommandSpec } from "../../command.ts";
import { explaining, fileOf, fileOption, openFolder } from "./around.ts";
import { takeOverOption, withMark } from "./mark.ts";
import { secretsToLook, withOpenCluster } from "./open.ts";

export const talosDestroy: CommandSpec = {
  name: "talos destroy",
  summary: "delete every machine of the cluster",
  details:
    "Only with protect.destroy: false in the file and the cluster's name typed. Guests are deleted only when tag and identity are this cluster's. The file and the secrets stay, copies of the lock too.",
  options: [
    fileOption,
    { flags: "--name <name>", about: "the cluster's name, instead of typing it" },
    takeOverOption,
  ],
  examples: ["talos destroy", "talos destroy --name lab"],
  doing: (input) => `destroy the cluster of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const [{ refuseDestroy, destroySteps }, { takeLease }, { stepText }] = await Promise.all([
        import("@gpve/talos/engine/destroy.ts"),
        import("@gpve/talos/folder/lease.ts"),
        import("@gpve/talos/plan/step-text.ts"),
      ]);
      const { name } = place.cluster.metadata;
      if (place.cluster.protect.destroy) refuseDestroy(place.cluster, name);
      const secrets = await secretsToLook(cli, place);
      const lease = takeLease(place.folder, name);
      try {
        await withOpenCluster(cli, place, secrets, async (opened) => {
          const { cluster } = opened;
          const steps = destroySteps(await cluster.observe());
          for (const step of steps) cli.out.line(cli.out.colours.red(stepText(step)));
          const question = `All data in these machines will be gone. Type the cluster's name to go on: `;
          refuseDestroy(place.cluster, input.text("name") ?? (await cli.io.ask(question)).trim());
          const { TimeLine } = await import("./time-line.ts");
          const line = new TimeLine(cli);
          await withMark(cli, input, place, opened, ({ signal }) =>
            cluster.destroy((report) => line.report(report), AbortSignal.any([cli.signal, signal])),
          );
          cli.out.done(`${name} is gone. ${place.file} and ${place.cluster.secrets.file} are as they were.`);
        });
      } finally {
        lease.release();
      }
    }),
};
