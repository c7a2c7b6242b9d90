import { given } from "@gpve/contracts/given.ts";
import type { V1Kind, V1Object, V1WatchEvent } from "@gpve/client/object.ts";
import type { V1Client } from "@gpve/client/v1-client.ts";
import { isAppError } from "@gpve/contracts/errors.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { type Input, wholeNumber } from "../../input.ts";
import { isCellFormat } from "../../output/cell.ts";
import type { TableColumn } from "../../output/table.ts";
import { namedObject, objectPlace, type ObjectPlace } from "./named-object.ts";

export const objectGet: CommandSpec = {
  name: "get",
  summary: "list objects of a kind, or show some by name",
  details: "Kinds are those the server lists: gpvectl get kinds.",
  arguments: [
    { name: "<kind>", about: "nodes, tenants, tasks, users, …; or `kinds` for the list of kinds" },
    {
      name: "[names...]",
      about: "only these objects; VMs by VMID or name, virtual clusters also as TENANT/NAME",
    },
  ],
  options: [
    { flags: "-l, --selector <labels>", about: "by label: tier=web,env!=prod" },
    { flags: "--field-selector <fields>", about: "by field: status.health=online" },
    { flags: "--limit <count>", about: "at most so many", parse: wholeNumber(1, 1_000_000) },
    { flags: "-w, --watch", about: "keep showing changes until Ctrl-C" },
  ],
  examples: [
    "get nodes",
    "get vm web",
    "get tenants -l tier=web -o yaml",
    "get tasks --field-selector status.phase=running -w",
  ],
  doing: (input) => `get ${[input.arg("kind"), ...input.args("names")].join(" ")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const { v1 } = client;
    if (input.arg("kind") === "kinds") {
      await showKinds(cli, v1);
      return;
    }
    const kind = await v1.kind(input.arg("kind"));
    const names = input.args("names");
    if (input.flag("watch")) {
      const wanted = await Promise.all(names.map((name) => objectPlace(client, kind, name)));
      await watchObjects(cli, v1, kind, input, wanted);
    } else if (names.length === 0) showObjects(cli, kind, await listObjects(v1, kind, input), false);
    else {
      const objects: V1Object[] = [];
      for (const name of names) objects.push(await namedObject(client, kind, name));
      showObjects(cli, kind, objects, names.length === 1);
    }
  },
};

export function columnsOf(kind: V1Kind): readonly TableColumn[] {
  if (kind.columns.length === 0) return [{ header: "NAME", field: "metadata.name" }];
  return kind.columns.map(({ header, field, format, wide }) => ({
    header,
    field,
    ...(isCellFormat(format)
      ? { format }
      : /\.(phase|health)$/.test(field)
        ? { format: "state" as const }
        : {}),
    ...(wide === true ? { wide } : {}),
  }));
}

function showObjects(cli: Cli, kind: V1Kind, objects: readonly V1Object[], single: boolean): void {
  if (cli.out.forPeople) cli.out.rows(objects, columnsOf(kind), `No ${kind.plural}.`);
  else if (single) cli.out.data(objects[0]);
  else cli.out.data({ apiVersion: "gpve.io/v1", kind: `${kind.kind}List`, items: objects });
}

function selectors(input: Input): { labelSelector?: string; fieldSelector?: string } {
  return given({ labelSelector: input.text("selector"), fieldSelector: input.text("fieldSelector") });
}

async function listObjects(v1: V1Client, kind: V1Kind, input: Input): Promise<readonly V1Object[]> {
  const limit = input.number("limit") ?? Number.POSITIVE_INFINITY;
  const objects: V1Object[] = [];
  for await (const object of v1.listAll(kind.plural, { ...selectors(input), limit: Math.min(limit, 500) })) {
    objects.push(object);
    if (objects.length >= limit) break;
  }
  return objects;
}

/** Each change is one row (EVENT first), or one document. After a gap everything is shown again. */
async function watchObjects(
  cli: Cli,
  v1: V1Client,
  kind: V1Kind,
  input: Input,
  wanted: readonly ObjectPlace[],
): Promise<void> {
  const columns = [{ header: "EVENT", field: "event" }, ...columnsOf(kind)];
  const widths: number[] = [];
  let first = true;
  const show = (event: V1WatchEvent): void => {
    const { name, namespace } = event.object.metadata;
    const isWanted = wanted.some(
      (each) => each.name === name && (each.tenant === undefined || each.tenant === namespace),
    );
    if (wanted.length > 0 && !isWanted) return;
    if (!cli.out.forPeople) {
      cli.out.data({ type: event.type, object: event.object }, { compact: true });
      return;
    }
    const table = cli.out.table([{ event: event.type.padEnd(8), ...event.object }], columns, widths);
    cli.out.text(first ? table : table.slice(table.indexOf("\n") + 1));
    first = false;
  };
  while (!cli.signal.aborted) {
    try {
      for await (const event of v1.watch(kind.plural, { ...selectors(input), signal: cli.signal }))
        show(event);
    } catch (err) {
      if (!isAppError(err, "store.compacted")) throw err;
      cli.out.note("Some changes were missed; showing everything again.");
    }
  }
}

async function showKinds(cli: Cli, v1: V1Client): Promise<void> {
  const columns: readonly TableColumn[] = [
    { header: "KIND", field: "kind" },
    { header: "PLURAL", field: "plural" },
    { header: "ALSO", field: "aliases", format: "list" },
    { header: "VERBS", field: "verbs", format: "list" },
    { header: "DESCRIPTION", field: "description" },
  ];
  cli.out.rows(await v1.kinds(), columns, "This server knows no kinds.");
}
