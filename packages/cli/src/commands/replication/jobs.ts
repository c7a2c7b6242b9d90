// Replication of local disks to a second node: jobs, what came of them, and their end.
import type { GpveClient } from "@gpve/client/client.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";
import { wholeNumber } from "../../input.ts";
import { showRows, watchOptions } from "../../watch.ts";
import { findVm, vmArgument } from "../vm/find-vm.ts";

type Row = Readonly<Record<string, unknown>>;

const jobArgument = { name: "<job>", about: "the job's name, such as 100-0: see replication list" };

export const replicationList: CommandSpec = {
  name: "replication list",
  summary: "list jobs that keep copies of local disks on a second node, and what came of them",
  options: watchOptions,
  examples: ["replication list", "replication list --watch"],
  doing: () => "list replication jobs",
  run: async (cli, input) => {
    const client = await cli.client();
    const columns = [
      { header: "JOB", field: "id" },
      { header: "FROM", field: "source" },
      { header: "TO", field: "target" },
      { header: "SCHEDULE", field: "schedule" },
      { header: "LAST COPY", field: "last_sync", format: "time" },
      { header: "NEXT", field: "next_sync", format: "time" },
      { header: "FAILED", field: "fail_count" },
      { header: "ERROR", field: "error" },
      { header: "COMMENT", field: "comment", wide: true },
    ] as const;
    await showRows(cli, input, columns, "Nothing is replicated.", () => jobsOf(client));
  },
};

export const replicationAdd: CommandSpec = {
  name: "replication add",
  summary: "keep a copy of a VM's local disks on another node",
  details:
    "The first copy takes all that is not empty, later ones what changed. See docs/how-to/replication.md.",
  arguments: [vmArgument, { name: "<target>", about: "the node that gets the copy" }],
  options: [
    { flags: "--schedule <event>", about: "when, as a calendar event (*/15: every quarter of an hour)" },
    { flags: "--rate <megabytes>", about: "at most so many MB a second", parse: wholeNumber(1) },
    { flags: "--comment <text>", about: "free text" },
  ],
  examples: ["replication add web n2", "replication add 100 n2 --schedule '*/5'"],
  doing: (input) => `replicate VM ${input.arg("vm")} to ${input.arg("target")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const target = input.arg("target");
    const { vmid } = await findVm(client, input.arg("vm"));
    const known = new Set((await client.pve.list("/cluster/replication")).map((row) => String(row["id"])));
    let number = 0;
    while (known.has(`${vmid}-${number}`)) number++;
    const id = `${vmid}-${number}`;
    const options = given({
      schedule: input.text("schedule"),
      rate: input.number("rate"),
      comment: input.text("comment"),
    });
    await client.pve.post("/cluster/replication", { id, type: "local", target, ...options });
    cli.out.done(
      `Job ${id} keeps a copy of VM ${vmid} on ${target}. Now instead of later: replication run ${id}`,
    );
  },
};

export const replicationRun: CommandSpec = {
  name: "replication run",
  summary: "copy at once instead of when it is due",
  arguments: [jobArgument],
  examples: ["replication run 100-0"],
  doing: (input) => `run the replication job ${input.arg("job")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const id = input.arg("job");
    const node = await sourceOf(client, id);
    await client.pve.post("/nodes/{node}/replication/{id}/schedule_now", { node, id });
    cli.out.done(`Job ${id} is run now. What comes of it: replication list, replication log ${id}`);
  },
};

export const replicationLog: CommandSpec = {
  name: "replication log",
  summary: "show the log of a job's last run",
  arguments: [jobArgument],
  examples: ["replication log 100-0"],
  doing: (input) => `show the log of the replication job ${input.arg("job")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const id = input.arg("job");
    const node = await sourceOf(client, id);
    const lines = await client.pve.list("/nodes/{node}/replication/{id}/log", { node, id, limit: 5000 });
    if (!cli.out.forPeople) cli.out.data(lines);
    else if (lines.length === 0) cli.out.note(`Job ${id} has not run yet.`);
    else for (const line of lines) cli.out.line(String(line["t"]));
  },
};

export const replicationRemove: CommandSpec = {
  name: "replication remove",
  summary: "end a replication job; the copy goes too",
  arguments: [jobArgument],
  options: [
    { flags: "--keep", about: "leave the copy where it is" },
    { flags: "--force", about: "only forget the job, as where its nodes are lost for good" },
  ],
  examples: ["replication remove 100-0", "replication remove 100-0 --keep"],
  doing: (input) => `remove the replication job ${input.arg("job")}`,
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const id = input.arg("job");
    const [keep, force] = [input.flag("keep"), input.flag("force")];
    await pve.delete("/cluster/replication/{id}", {
      id,
      ...(keep ? { keep } : {}),
      ...(force ? { force } : {}),
    });
    cli.out.done(
      force
        ? `Job ${id} is forgotten.`
        : `Job ${id} goes, ${keep ? "and its copy stays" : "once its copy is removed"}.`,
    );
  },
};

/** With what each node knows of its own: when it was last copied, and what stood against it. */
async function jobsOf(client: GpveClient): Promise<readonly Row[]> {
  const jobs = await client.pve.list("/cluster/replication");
  const nodes = [...new Set(jobs.flatMap(({ source }) => (typeof source === "string" ? [source] : [])))];
  const states = (
    await Promise.all(nodes.map((node) => client.pve.list("/nodes/{node}/replication", { node })))
  ).flat();
  return jobs.map((job) => {
    const { last_sync: last, ...state } = states.find(({ id }) => id === job["id"]) ?? {};
    return { ...job, ...state, ...given({ last_sync: last === 0 ? undefined : last }) };
  });
}

async function sourceOf(client: GpveClient, id: string): Promise<string> {
  const job = (await client.pve.list("/cluster/replication")).find((row) => row["id"] === id);
  if (typeof job?.["source"] === "string") return job["source"];
  throw new AppError("object.not_found", `there is no replication job ${id}`, {
    data: { next: "See what there is: gpvectl replication list." },
  });
}
