import { randomUUID } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import type { BackupDeps } from "@gpve/talos/engine/machine-backups.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { Cli, CommandSpec, OptionSpec } from "../../../command.ts";
import { type Input, wholeNumber } from "../../../input.ts";
import { applyPlace, doingOptions, yesOption } from "../apply.ts";
import { explaining, fileOf, fileOption, jsonOption, openFolder } from "../around.ts";
import { insideOptions } from "../checks.ts";
import { withMark } from "../mark.ts";
import { needSecrets, type Opened, withOpenCluster } from "../open.ts";
import { downtimeOption } from "../plan.ts";

const storageOption: OptionSpec = {
  flags: "--storage <name>",
  about: "the platform's storage for backups",
  required: true,
};

export const talosBackupMachines: CommandSpec = {
  name: "talos backup machines",
  summary: "back up machines with all that lies on their disks",
  details:
    "One after another, while they run; the guest agent holds file systems still for the moment in which it begins. Applications and their volumes on these disks come back by `talos backup restore`. etcd's own state is what `talos etcd snapshot` is for.",
  arguments: [{ name: "[machine...]", about: "their names; all when left out" }],
  options: [
    fileOption,
    storageOption,
    {
      flags: "--keep <count>",
      about: "of each machine, delete older backups than these once there is a new one",
      parse: wholeNumber(1),
    },
    ...doingOptions,
    jsonOption,
  ],
  examples: [
    "talos backup machines --storage backups",
    "talos backup machines prod-worker-1 --storage backups --keep 7",
  ],
  doing: (input) => `back up machines of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const { backupMachines } = await import("@gpve/talos/engine/machine-backups.ts");
      const made = await alone(cli, input, place, async (deps) =>
        backupMachines(deps, {
          names: input.args("machine"),
          storage: input.text("storage") ?? "",
          keep: input.number("keep"),
        }),
      );
      if (!cli.out.forPeople) return cli.out.data({ backups: made });
      for (const { machine, volume, isFrozen } of made)
        cli.out.line(
          `${machine}: ${volume}${isFrozen ? "" : " (without the guest agent, as if its power had failed)"}`,
        );
      cli.out.done(`Backed up ${made.length} ${made.length === 1 ? "machine" : "machines"}.`);
    }),
};

export const talosBackupList: CommandSpec = {
  name: "talos backup list",
  summary: "list the backups of a cluster's machines",
  details: "Those that carry a machine's identity; what other guests left under its VMID is not among them.",
  options: [fileOption, storageOption, jsonOption],
  examples: ["talos backup list --storage backups"],
  doing: (input) => `list backups of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const { machineBackups } = await import("@gpve/talos/engine/machine-backups.ts");
      const found = await opened(cli, place, async (deps) =>
        machineBackups(deps, input.text("storage") ?? ""),
      );
      cli.out.rows(
        found.map(({ machine, at, bytes, volume }) => ({ machine, at, bytes, volume })),
        [
          { header: "MACHINE", field: "machine" },
          { header: "AT", field: "at" },
          { header: "BYTES", field: "bytes" },
          { header: "VOLUME", field: "volume" },
        ],
        "There are no backups of its machines.",
      );
    }),
};

export const talosBackupRestore: CommandSpec = {
  name: "talos backup restore",
  summary: "bring a worker back from a backup of its machine",
  details:
    "Its node is drained, its guest stopped and written over, started again; then the file is applied, so that versions and settings are those of today. What it was since the backup is lost. Control planes are refused: they are made anew by `talos replace`.",
  arguments: [
    { name: "<machine>", about: "its name" },
    { name: "[volume]", about: "the backup; the newest one when left out" },
  ],
  options: [
    fileOption,
    storageOption,
    downtimeOption,
    yesOption,
    ...doingOptions,
    ...insideOptions,
    jsonOption,
  ],
  examples: ["talos backup restore prod-worker-1 --storage backups"],
  doing: (input) => `bring ${input.arg("machine")} of ${fileOf(input)} back`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const name = input.arg("machine");
      if (!input.flag("yes")) {
        const answer = await cli.io.ask(`What ${name} was since its backup is lost. Only yes is taken: `);
        if (answer.trim() !== "yes") throw new AppError("request.invalid", "nothing was changed");
      }
      const { restoreMachine } = await import("@gpve/talos/engine/machine-backups.ts");
      const volume = await alone(cli, input, place, async (deps, { kubernetes }) =>
        restoreMachine(
          { ...deps, kubernetes, clock: cli.io.clock },
          { name, storage: input.text("storage") ?? "", volume: input.optionalArg("volume") },
        ),
      );
      cli.out.note(`${name} is back from ${volume}; now it becomes what the file says.`);
      return applyPlace(cli, input, place);
    }),
};

type Work<T> = (deps: BackupDeps, opened: Opened) => Promise<T>;

/** Nobody else changes the cluster meanwhile, here or elsewhere. */
async function alone<T>(cli: Cli, input: Input, place: ClusterFolder, work: Work<T>): Promise<T> {
  const { takeLease } = await import("@gpve/talos/folder/lease.ts");
  const lease = takeLease(place.folder, place.cluster.metadata.name);
  try {
    return await opened(cli, place, (deps, each) =>
      withMark(cli, input, place, each, ({ signal }) => {
        const note: BackupDeps["note"] = (event, step) => {
          if (event === "begin") signal.throwIfAborted();
          deps.note(event, step);
        };
        return work({ ...deps, note }, each);
      }),
    );
  } finally {
    lease.release();
  }
}

async function opened<T>(cli: Cli, place: ClusterFolder, work: Work<T>): Promise<T> {
  const { FileJournal, journalPath } = await import("@gpve/talos/folder/journal.ts");
  const journal = new FileJournal(journalPath(place.folder, place.cluster.metadata.name));
  const run = randomUUID();
  const secrets = await needSecrets(cli, place);
  return withOpenCluster(cli, place, secrets, async (each) => {
    const { cluster, drivers } = each;
    const note = (event: "begin" | "done", step: string): void => {
      journal.append({ at: new Date(cli.io.clock.now()).toISOString(), run, event, step });
      if (event === "begin") cli.out.note(`${step} ...`);
    };
    return work({ desired: cluster.desired(), world: await cluster.observe(), drivers, note }, each);
  });
}
