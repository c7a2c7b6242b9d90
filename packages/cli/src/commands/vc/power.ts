// What is done to a virtual cluster that is there.
import { isObject } from "@gpve/client/response-error.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import type { CommandSpec } from "../../command.ts";
import { durationSeconds } from "../../input.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { tenantOption, vcArgument, vcPath, yesOption } from "./find-vc.ts";

function power(verb: "start" | "stop" | "retry", summary: string, done: string): CommandSpec {
  return {
    name: `vc ${verb}`,
    summary,
    arguments: [vcArgument],
    options: [tenantOption, yesOption, noWaitOption],
    examples: [`vc ${verb} demo`],
    doing: (input) => `${verb} virtual cluster ${input.arg("name")}`,
    run: async (cli, input) => {
      const { v1 } = await cli.client();
      const answer = await v1.post(vcPath(input, `/${verb}`), undefined);
      const task = isObject(answer) ? answer["task"] : undefined;
      await finishWork(cli, input, task, `Virtual cluster ${input.arg("name")} ${done}.`);
    },
  };
}

export const vcPowerCommands: readonly CommandSpec[] = [
  power("start", "start a stopped virtual cluster", "runs"),
  power("stop", "stop a virtual cluster; nobody who connects wakes it", "is stopped"),
  power("retry", "do again what left a virtual cluster Failed", "runs"),
];

export const vcWake: CommandSpec = {
  name: "vc wake",
  summary: "wake a virtual cluster that sleeps; with --for, keep it awake for so long",
  details:
    "Without --for it sleeps again as its policy says (spec.sleep). What keeps it awake now: `vc show`, condition KeptAwake. `vc sleep` ends what --for began.",
  arguments: [vcArgument],
  options: [
    tenantOption,
    {
      flags: "--for <duration>",
      about: "so long it does not sleep by itself, nor by its calendar: 2h, at most 7d",
      parse: durationSeconds,
    },
    yesOption,
    noWaitOption,
  ],
  examples: ["vc wake demo", "vc wake demo --for 2h"],
  doing: (input) => `wake virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const seconds = input.number("for");
    const query = seconds === undefined ? "" : `?forSeconds=${seconds}`;
    const answer = await v1.post(vcPath(input, `/wake${query}`), undefined);
    const task = isObject(answer) ? answer["task"] : undefined;
    await finishWork(cli, input, task, `Virtual cluster ${input.arg("name")} is awake.`);
  },
};

export const vcSleep: CommandSpec = {
  name: "vc sleep",
  summary: "put a virtual cluster to sleep; whoever connects wakes it",
  arguments: [vcArgument],
  options: [
    tenantOption,
    {
      flags: "--mode <mode>",
      about: "cold: its processes end; warm: they stand still in memory and wake at once (cold)",
      choices: ["cold", "warm"],
    },
    yesOption,
    noWaitOption,
  ],
  examples: ["vc sleep demo", "vc sleep demo --mode warm"],
  doing: (input) => `put virtual cluster ${input.arg("name")} to sleep`,
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const mode = input.text("mode") ?? "cold";
    const answer = await v1.post(vcPath(input, `/sleep?mode=${encodeURIComponent(mode)}`), undefined);
    const task = isObject(answer) ? answer["task"] : undefined;
    await finishWork(cli, input, task, `Virtual cluster ${input.arg("name")} is ${mode}.`);
  },
};

const EVENT_COLUMNS = [
  { header: "LAST", field: "lastAt", format: "age" },
  { header: "TYPE", field: "type" },
  { header: "REASON", field: "reason" },
  { header: "NODE", field: "node" },
  { header: "COUNT", field: "count" },
  { header: "MESSAGE", field: "message" },
] as const;

const KUBECONFIG_COLUMNS = [
  { header: "ID", field: "id" },
  { header: "USER", field: "user" },
  { header: "ENDS", field: "expiresAt", format: "time" },
] as const;

export const vcKubeconfigs: CommandSpec = {
  name: "vc kubeconfigs",
  summary: "list the kubeconfigs of a virtual cluster that are good: whose, and until when",
  details:
    "The files are nowhere: whoever has one has it. `vc revoke` takes the rights of one away. One of before a new authority, or of the cluster that a backup is of, is listed until it ends, though nobody can log in by it. The end of one is unknown where somebody in the cluster changed its binding: it may be good.",
  arguments: [vcArgument],
  options: [tenantOption],
  examples: ["vc kubeconfigs demo"],
  doing: (input) => `list the kubeconfigs of virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const answer = await v1.raw("GET", vcPath(input, "/kubeconfigs"));
    const rows =
      isObject(answer) && Array.isArray(answer["kubeconfigs"]) ? (answer["kubeconfigs"] as Fields[]) : [];
    const shown = cli.out.forPeople ? rows.map((row) => ({ expiresAt: "unknown", ...row })) : rows;
    cli.out.rows(shown, KUBECONFIG_COLUMNS, "No kubeconfig is good.");
  },
};

export const vcRevoke: CommandSpec = {
  name: "vc revoke",
  summary: "take the rights of one kubeconfig away",
  arguments: [vcArgument, { name: "<id>", about: "as `vc kubeconfigs` lists it" }],
  options: [tenantOption, yesOption],
  examples: ["vc revoke demo 0123456789abcdef"],
  doing: (input) => `revoke a kubeconfig of virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    await v1.raw("DELETE", vcPath(input, `/kubeconfigs/${encodeURIComponent(input.arg("id"))}`));
    cli.out.done(`Kubeconfig ${input.arg("id")} has no rights any more.`);
  },
};

export const vcLogs: CommandSpec = {
  name: "vc logs",
  summary: "show what the parts of its control plane printed last, or who asked its API for what",
  arguments: [vcArgument],
  options: [
    tenantOption,
    { flags: "--audit", about: "the audit log of its API server, as lines of JSON, instead" },
  ],
  examples: ["vc logs demo", "vc logs demo --audit"],
  doing: (input) => `read the logs of virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const answer = await v1.raw("GET", vcPath(input, input.flag("audit") ? "/logs?audit=true" : "/logs"));
    const lines = isObject(answer) && Array.isArray(answer["lines"]) ? (answer["lines"] as unknown[]) : [];
    if (!cli.out.forPeople) cli.out.data({ lines });
    else for (const line of lines) cli.out.line(String(line));
  },
};

export const vcEvents: CommandSpec = {
  name: "vc events",
  summary: "show what happened to a virtual cluster lately",
  arguments: [vcArgument],
  options: [tenantOption],
  examples: ["vc events demo"],
  doing: (input) => `read the events of virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const answer = await v1.raw("GET", vcPath(input, "/events"));
    const events = isObject(answer) && Array.isArray(answer["events"]) ? (answer["events"] as unknown[]) : [];
    cli.out.rows(events, EVENT_COLUMNS, "No events lately.");
  },
};
