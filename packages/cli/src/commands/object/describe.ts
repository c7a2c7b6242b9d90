import { stringify } from "yaml";
import type { V1Kind, V1Object } from "@gpve/client/object.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { cellText, type CellFormat, isCellFormat } from "../../output/cell.ts";
import { fieldOf } from "../../output/table.ts";
import { namedObject } from "./named-object.ts";

export const objectDescribe: CommandSpec = {
  name: "describe",
  summary: "show one object in full, grouped for reading",
  arguments: [
    { name: "<kind>", about: "such as node, vm, tenant, user" },
    { name: "<name>", about: "the object's name; a VM's VMID or name" },
  ],
  examples: ["describe node n1", "describe vm web", "describe user joe@pve"],
  doing: (input) => `describe ${input.arg("kind")} ${input.arg("name")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const kind = await client.v1.kind(input.arg("kind"));
    const object = await namedObject(client, kind, input.arg("name"));
    if (cli.out.forPeople) describe(cli, kind, object);
    else cli.out.data(object);
  },
};

function describe(cli: Cli, kind: V1Kind, object: V1Object): void {
  const shown: [string, unknown][] = [
    ["Name", object.metadata.name],
    ["Kind", object.kind],
    ["Tenant", object.metadata.namespace],
    ["Labels", object.metadata.labels],
    ["Annotations", object.metadata.annotations],
    ["Created", object.metadata.creationTimestamp],
    ["Version", object.metadata.resourceVersion],
  ];
  for (const [title, value] of shown) if (!isEmpty(value)) printField(cli, title, value, "text", 0);
  const groups =
    kind.describe.length > 0
      ? kind.describe
      : [
          { title: "Spec", fields: Object.keys(object.spec ?? {}).map((key) => `spec.${key}`) },
          { title: "Status", fields: Object.keys(object.status ?? {}).map((key) => `status.${key}`) },
        ];
  for (const { title, fields } of groups) {
    const present = fields.filter((field) => !isEmpty(fieldOf(object, field)));
    if (present.length === 0) continue;
    cli.out.line(`${cli.out.colours.bold(title)}:`);
    for (const field of present) {
      const key = field.slice(field.lastIndexOf(".") + 1);
      const format = kind.columns.find((column) => column.field === field)?.format ?? formatOfKey(key, "");
      const name = titleOf(key);
      if (name === title && isTable(fieldOf(object, field))) {
        printTable(cli, fieldOf(object, field) as readonly object[], 2);
        continue;
      }
      printField(
        cli,
        name,
        fieldOf(object, field),
        isCellFormat(format) && format !== "age" ? format : "text",
        2,
      );
    }
  }
}

function printField(cli: Cli, title: string, value: unknown, format: CellFormat, indent: number): void {
  const pad = " ".repeat(indent);
  if (isTable(value)) {
    cli.out.line(`${pad}${title}:`);
    printTable(cli, value, indent + 2);
    return;
  }
  if (isObject(value) || (Array.isArray(value) && value.some(isObject))) {
    cli.out.line(`${pad}${title}:`);
    const text = stringify(readable(value, cli.io.clock.now(), RESOURCES.test(title) ? title : "")).trimEnd();
    for (const line of text.split("\n")) cli.out.line(`${pad}  ${cellText(line, "text", 0)}`);
    return;
  }
  const text = cellText(value, Array.isArray(value) ? "list" : format, cli.io.clock.now());
  cli.out.line(`${pad}${`${title}:`.padEnd(18 - indent)} ${text}`);
}

/** Units that names of figures tell. */
function formatOfKey(key: string, parent: string): CellFormat | undefined {
  if (key.endsWith("Bytes") || (/^(?:memory|swap|rootfs|storage)$/.test(parent) && key !== ""))
    return "bytes";
  if (key.endsWith("Seconds")) return "duration";
  // Of resources CPUs are counted; of usage they are a share.
  if (RESOURCES.test(parent)) return key === "memory" ? "bytes" : undefined;
  return key === "cpu" ? "percent" : undefined;
}

/** The same tree with its figures as people read them. */
function readable(value: unknown, now: number, parent = ""): unknown {
  if (Array.isArray(value)) return value.map((item) => readable(item, now));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      const format = typeof item === "number" ? formatOfKey(key, parent) : undefined;
      if (format === undefined) return [key, readable(item, now, key)];
      return [key.replace(UNIT, ""), cellText(item, format, now)];
    }),
  );
}

/** Rows whose cells are plain values. */
function isTable(value: unknown): value is readonly object[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((row) => isObject(row) && Object.values(row).every((cell) => typeof cell !== "object"))
  );
}

function printTable(cli: Cli, rows: readonly object[], indent: number): void {
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const table = cli.out.table(
    rows,
    keys.map((key) => ({ header: key.toUpperCase(), field: key })),
  );
  for (const line of table.trimEnd().split("\n")) cli.out.line(" ".repeat(indent) + line);
}

const RESOURCES = /^(?:capacity|allocatable|allocated)$/i;
const UNIT = /(?:Bytes|Seconds)$/;
const CAPITALS = /\b(?:cpus?|os|qemu|vmid|url|id)\b/g;

/** "qemuVersion" -> "QEMU version" */
function titleOf(key: string): string {
  const words = key
    .replace(UNIT, "")
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase();
  const shown = words.replace(CAPITALS, (word) => (word === "cpus" ? "CPUs" : word.toUpperCase()));
  return shown.charAt(0).toUpperCase() + shown.slice(1);
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}
