import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { CommandSpec } from "../../../command.ts";
import { explaining, fileOf, fileOption, openFolder } from "../around.ts";

export const talosEtcdSchedule: CommandSpec = {
  name: "talos etcd schedule",
  summary: "print what takes snapshots at the times that the file says",
  details:
    "backup.etcd.schedule as a service and a timer of systemd, or as a line of cron; nothing of ours has to run in between. Each run takes a snapshot, encrypts it, reads it back and checks it. The platform's token comes from an environment file that only its owner can read; it is in neither unit nor line.",
  options: [
    fileOption,
    { flags: "--format <format>", about: "systemd or cron (systemd)", choices: ["systemd", "cron"] },
    { flags: "--out <dir>", about: "write the units into this folder instead of printing them" },
    { flags: "--program <path>", about: "where gpvectl lies (/usr/local/bin/gpvectl)" },
    {
      flags: "--environment-file <path>",
      about: "has NAME=token for tokenRef, mode 0600 (/etc/gpve/talos-CLUSTER.env)",
    },
  ],
  examples: [
    "talos etcd schedule",
    "talos etcd schedule --out /etc/systemd/system",
    "talos etcd schedule --format cron",
  ],
  doing: (input) => `write the schedule of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const { cluster, folder, file } = await openFolder(cli, input);
      const { cronLine, systemdUnits } = await import("@gpve/talos/backup/snapshot-timer.ts");
      const { name } = cluster.metadata;
      const request = {
        cluster: name,
        schedule: cluster.backup.etcd.schedule,
        folder: resolve(cli.io.cwd, folder),
        file: resolve(cli.io.cwd, file),
        program: [input.text("program") ?? "/usr/local/bin/gpvectl"],
        environmentFile: input.text("environmentFile") ?? `/etc/gpve/talos-${name}.env`,
      };
      if (input.text("format") === "cron") {
        cli.out.text(`${cronLine(request)}\n`);
        return;
      }
      const units = Object.entries(systemdUnits(request));
      const out = input.text("out");
      if (out === undefined) {
        cli.out.text(units.map(([unit, text]) => `# ${unit}\n${text}`).join("\n"));
        return;
      }
      const target = resolve(cli.io.cwd, out);
      mkdirSync(target, { recursive: true });
      for (const [unit, text] of units) writeFileAtomic(join(target, unit), text, 0o644);
      const timer = units.at(-1)?.[0] ?? "";
      cli.out.done(
        `Wrote ${units.map(([unit]) => unit).join(" and ")}. Now: systemctl enable --now ${timer}`,
      );
    }),
};
