// Backup, restore, upgrade and moves of virtual clusters.
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { wholeNumber } from "../../input.ts";
import { tenantOption, vcArgument, vcNamed, vcPath, vcWords, yesOption } from "./find-vc.ts";

const taskOf = (answer: unknown): unknown => (isObject(answer) ? answer["task"] : undefined);

export const vcBackup: CommandSpec = {
  name: "vc backup",
  summary: "back a virtual cluster up: its objects at one moment, its keys and its volumes",
  details:
    "It goes on meanwhile; one that sleeps is not woken. What is in volumes is copied file by file while pods write.",
  arguments: [vcArgument],
  options: [
    tenantOption,
    { flags: "--storage <storage>", about: "where it goes (the storage for backups, else local)" },
    { flags: "--notes <text>", about: "shown beside it (what it is)" },
    { flags: "--protected", about: "nothing removes it before that is taken back" },
    yesOption,
    noWaitOption,
  ],
  examples: ["vc backup demo", "vc backup demo --storage nas --notes 'before the move'"],
  doing: (input) => `back virtual cluster ${input.arg("name")} up`,
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const answer = await v1.post(vcPath(input, "/backup"), {
      ...given({ storage: input.text("storage"), notes: input.text("notes") }),
      ...(input.flag("protected") ? { protected: true } : {}),
    });
    const name = input.arg("name");
    await finishWork(
      cli,
      input,
      taskOf(answer),
      `Virtual cluster ${name} is backed up: gpvectl vc backups ${vcWords(vcNamed(input))}`,
    );
  },
};

const BACKUP_COLUMNS = [
  { header: "ARCHIVE", field: "archive" },
  { header: "AGE", field: "at", format: "age" },
  { header: "SIZE", field: "sizeBytes", format: "bytes" },
  { header: "PROTECTED", field: "protected" },
  { header: "NOTES", field: "notes" },
] as const;

export const vcBackups: CommandSpec = {
  name: "vc backups",
  summary: "show the backups of a virtual cluster, oldest first",
  details: "Also of one that is gone: then those that any node sees.",
  arguments: [vcArgument],
  options: [tenantOption],
  examples: ["vc backups demo"],
  doing: (input) => `list the backups of virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const answer = await v1.raw("GET", vcPath(input, "/backups"));
    const found =
      isObject(answer) && Array.isArray(answer["backups"]) ? (answer["backups"] as unknown[]) : [];
    const rows = found
      .filter(isObject)
      .map((row) => ({ ...row, at: new Date(Number(row["time"]) * 1000).toISOString() }));
    const away = isObject(answer) && Array.isArray(answer["away"]) ? answer["away"].map(String) : [];
    if (away.length > 0)
      cli.out.note(`Not to be seen now, with what backups they have: storage ${away.join(", ")}.`);
    cli.out.rows(rows, BACKUP_COLUMNS, "No backups.");
  },
};

export const vcRestore: CommandSpec = {
  name: "vc restore",
  summary: "make a virtual cluster of a backup",
  details:
    "Under its old name it is what it was, and old kubeconfigs are good again; under another name it has authorities of its own. With --over the cluster of that name is lost; it comes back when the backup cannot be started. Of another cluster's backup it keeps its own authorities.",
  arguments: [{ name: "<name>", about: "the virtual cluster that it becomes" }],
  options: [
    {
      flags: "--tenant <tenant>",
      about: "the tenant it belongs to (the only one that has it, else that of the backup)",
    },
    { flags: "--from <archive>", about: "the backup, as `vc backups` and the task's log show it" },
    { flags: "--over", about: "in place of the cluster of that name, which is lost" },
    { flags: "--workers <count>", about: "how many workers (as it had)", parse: wholeNumber(0, 1000) },
    { flags: "--node <name>", about: "the node that shall have it (one that sees the backup)" },
    { flags: "--yes", about: "with --over: yes, it is meant" },
    noWaitOption,
  ],
  examples: ["vc restore demo2 --from local:backup/vzdump-vc-demo_default-2026_01_31-23_59_00.tar.gz"],
  doing: (input) => `restore virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const archive = input.text("from");
    if (archive === undefined)
      throw new AppError("request.invalid", "say which backup: --from ARCHIVE (gpvectl vc backups NAME)");
    if (!/^[^:]+:backup\//.test(archive))
      throw new AppError(
        "request.invalid",
        `'${archive}' is no backup: say it as gpvectl vc backups NAME shows it, local:backup/vzdump-vc-….tar.gz`,
      );
    const over = input.flag("over");
    const name = input.arg("name");
    if (over && !input.flag("yes"))
      throw new AppError(
        "request.invalid",
        `this replaces ${name} by the backup, and what it has now is lost; say --yes if that is meant`,
      );
    const { v1 } = await cli.client();
    const answer = await v1.post(vcPath(input, "/restore"), {
      archive,
      ...given({ workers: input.number("workers"), node: input.text("node") }),
      ...(over ? { over } : {}),
    });
    await finishWork(
      cli,
      input,
      taskOf(answer),
      `Virtual cluster ${name} is restored: gpvectl vc kubeconfig ${vcWords(vcNamed(input))}`,
    );
  },
};

export const vcUpgrade: CommandSpec = {
  name: "vc upgrade",
  summary: "upgrade a virtual cluster, by one minor at most",
  details:
    "Control plane, then worker after worker; its pods run on, and its API waits for the new one. Where that does not answer, the old one comes back by itself, with all that was in it.",
  arguments: [vcArgument],
  options: [
    tenantOption,
    { flags: "--to <version>", about: "1.36 or 1.36.4" },
    { flags: "--drain", about: "empty each worker before it is upgraded" },
    yesOption,
    noWaitOption,
  ],
  examples: ["vc upgrade demo --to 1.36"],
  doing: (input) => `upgrade virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const version = input.text("to");
    if (version === undefined) throw new AppError("request.invalid", "say to what: --to 1.36");
    const { v1 } = await cli.client();
    const body = { version, ...(input.flag("drain") ? { drain: true } : {}) };
    const answer = await v1.post(vcPath(input, "/upgrade"), body);
    await finishWork(
      cli,
      input,
      taskOf(answer),
      `Virtual cluster ${input.arg("name")} runs Kubernetes ${version}.`,
    );
  },
};

export const vcMigrate: CommandSpec = {
  name: "vc migrate",
  summary: "move the control plane of a virtual cluster, or a worker, to another node",
  details:
    "The control plane moves with its store and its keys; its workers stay where they are and its pods run on. Its API does not answer meanwhile, and then at the other node; kubeconfigs of before lead there. Where the other node cannot start it, it goes on where it was. With --worker that one moves instead: it is drained here and begins there, with its name and without volumes.",
  arguments: [vcArgument],
  options: [
    tenantOption,
    { flags: "--to <node>", about: "the node that shall have it" },
    { flags: "--worker <worker>", about: "move this worker, and not the control plane" },
    yesOption,
    noWaitOption,
  ],
  examples: ["vc migrate demo --to n2", "vc migrate demo --worker worker-2 --to n3"],
  doing: (input) => `move virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const target = input.text("to");
    if (target === undefined) throw new AppError("request.invalid", "say where to: --to NODE");
    const worker = input.text("worker");
    const { v1 } = await cli.client();
    const body = { target, ...given({ worker }) };
    const answer = await v1.post(vcPath(input, "/migrate"), body);
    const name = input.arg("name");
    const done =
      worker === undefined
        ? `Virtual cluster ${name} is on node ${target}; kubeconfigs of before lead there.`
        : `${worker} of virtual cluster ${name} is on node ${target}.`;
    await finishWork(cli, input, taskOf(answer), done);
  },
};
