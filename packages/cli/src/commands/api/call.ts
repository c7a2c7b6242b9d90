// `api get|post|put|patch|delete PATH [key=value…]` on either face.
import { encodeParams } from "@gpve/client/pve-encoding.ts";
import { isUpid } from "@gpve/client/task-wait.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import type { TableColumn } from "../../output/table.ts";
import { readManifests, fileOption } from "./../object/manifests.ts";
import { jsonBody, readParameters } from "./parameters.ts";

type Verb = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

function apiCommand(verb: Verb, summary: string, examples: readonly string[]): CommandSpec {
  const write = verb !== "GET" && verb !== "DELETE";
  return {
    name: `api ${verb.toLowerCase()}`,
    summary,
    details: [
      "A path below /api2/json may be written without that prefix: /nodes. Paths of our own face begin with",
      "/api/v1. Values: key=value, repeated keys for lists, key=@FILE or key=@- to keep secrets off the command",
      "line. Prints JSON unless --output says otherwise.",
    ].join(" "),
    arguments: [
      { name: "<path>", about: "/version, /nodes/n1/status, /api/v1/tenants" },
      { name: "[parameters...]", about: "key=value" },
    ],
    options: [
      ...(write ? [fileOption] : []),
      ...(verb === "GET" ? [] : [{ flags: "--wait", about: "wait for the task that the call starts" }]),
    ],
    examples,
    doing: (input) => `${verb} ${input.arg("path")}`,
    run: async (cli, input) => {
      const { path, ours } = parseApiPath(input.arg("path"));
      const answer = ours ? await callOurs(cli, input, verb, path) : await callPve(cli, input, verb, path);
      await finish(cli, input, answer);
    },
  };
}

export const apiCommands: readonly CommandSpec[] = [
  apiCommand("GET", "read from the API", ["api get /cluster/resources type=vm", "api get /api/v1/nodes"]),
  apiCommand("POST", "POST to the API: create, or start something", [
    "api post /pools poolid=dev comment='development'",
    "api post /access/users userid=joe@pve password=@-",
    "api post /api/v1/tenants -f tenant.yaml",
  ]),
  apiCommand("PUT", "PUT to the API: change or replace", [
    "api put /pools poolid=dev comment=new",
    "api put /api/v1/tenants/dev -f tenant.yaml",
  ]),
  apiCommand("PATCH", "PATCH an object of /api/v1", ["api patch /api/v1/tenants/dev spec.comment=new"]),
  apiCommand("DELETE", "DELETE from the API", [
    "api delete /pools poolid=dev",
    "api delete /api/v1/tenants/dev",
  ]),
];

export function parseApiPath(text: string): { path: string; ours: boolean } {
  const path = text.startsWith("/") ? text : `/${text}`;
  const ours = /^\/api\/v1(?=\/|\?|$)(.*)$/s.exec(path);
  if (ours !== null) return { path: (ours[1] ?? "").replace(/^\//, ""), ours: true };
  const pve = /^\/api2\/(json|extjs)(?=\/|\?|$)(.*)$/s.exec(path);
  if (pve !== null) return { path: pve[2] === "" ? "/" : (pve[2] ?? "/"), ours: false };
  return { path, ours: false };
}

async function callPve(cli: Cli, input: Input, verb: Verb, path: string): Promise<unknown> {
  if (verb === "PATCH") throw new AppError("request.invalid", "the Proxmox face has no PATCH; use put");
  const { pve } = await cli.client();
  const params = await readParameters(cli, input.args("parameters"));
  return (await pve.call(verb, path, params, { signal: cli.signal })).data;
}

async function callOurs(cli: Cli, input: Input, verb: Verb, path: string): Promise<unknown> {
  const { v1 } = await cli.client();
  const values = await readParameters(cli, input.args("parameters"));
  if (verb === "GET" || verb === "DELETE") {
    const query = encodeParams(values);
    const whole = query === "" ? path : `${path}${path.includes("?") ? "&" : "?"}${query}`;
    return v1.raw(verb, whole, { signal: cli.signal, ...(verb === "GET" ? {} : { headers: key() }) });
  }
  const files = input.texts("file").length > 0 ? await readManifests(cli, input) : [];
  if (files.length > 1) throw new AppError("request.invalid", "one call takes one object; see gpvectl apply");
  const body = files.length === 1 ? { ...files[0], ...jsonBody(values) } : jsonBody(values);
  const type = verb === "PATCH" ? { "content-type": "application/merge-patch+json" } : {};
  const empty = Object.keys(body).length === 0;
  return v1.raw(verb, path, {
    signal: cli.signal,
    ...(empty ? {} : { body }),
    headers: { ...key(), ...type },
  });
}

function key(): Record<string, string> {
  return { "idempotency-key": globalThis.crypto.randomUUID() };
}

async function finish(cli: Cli, input: Input, answer: unknown): Promise<void> {
  if (input.flag("wait") && isUpid(answer)) {
    const client = await cli.client();
    await client.requireTask(answer, { signal: cli.signal, onLog: (line) => cli.out.note(line) });
  }
  if (!cli.global.outputGiven || !cli.out.forPeople || !Array.isArray(answer)) {
    cli.out.data(answer);
    return;
  }
  cli.out.rows(answer, keysOf(answer), "Nothing.");
}

/** Every key of any row, in the order they are met. */
function keysOf(rows: readonly unknown[]): readonly TableColumn[] {
  const keys = new Set<string>();
  for (const row of rows)
    if (typeof row === "object" && row !== null) for (const name of Object.keys(row)) keys.add(name);
  return [...keys].map((name) => ({ header: name.toUpperCase(), field: name }));
}
