// Texts of `qm`, as PVE prints them.
import { isObject } from "@gpve/client/response-error.ts";
import { pveRows, type PveRow } from "@gpve/client/pve-client.ts";
import { prettyJson } from "./perl-json.ts";
import { timestamp, truthy, valueText } from "./value-text.ts";

type Line = (text: string) => void;

export function showVms(data: unknown, line: Line): void {
  const rows = pveRows(data, "the list of VMs").toSorted(
    (one, other) => Number(one["vmid"]) - Number(other["vmid"]),
  );
  if (rows.length === 0) return;
  const columns = (texts: readonly string[]): string => {
    const [vmid = "", name = "", status = "", memory = "", disk = "", pid = ""] = texts;
    return [
      vmid.padStart(10),
      name.padEnd(20),
      status.padEnd(10),
      memory.padEnd(10),
      disk.padStart(12),
      pid.padEnd(10),
    ].join(" ");
  };
  line(columns(["VMID", "NAME", "STATUS", "MEM(MB)", "BOOTDISK(GB)", "PID"]));
  for (const row of rows) {
    line(
      columns([
        valueText(row["vmid"]),
        valueText(row["name"]),
        valueText(row["qmpstatus"] ?? row["status"]),
        String(Number(row["maxmem"] ?? 0) / 1024 ** 2),
        (Number(row["maxdisk"] ?? 0) / 1024 ** 3).toFixed(2),
        valueText(row["pid"] ?? 0),
      ]),
    );
  }
}

export function showConfig(data: unknown, line: Line): void {
  const config = isObject(data) ? data : {};
  for (const key of Object.keys(config).toSorted()) {
    if (key !== "digest") line(`${key}: ${textOfKey(key, config[key])}`);
  }
}

export function showPending(data: unknown, line: Line): void {
  for (const row of sortedBy(data, "key")) {
    const key = valueText(row["key"]);
    if (key === "digest") continue;
    const { value, pending } = row;
    const now = value === undefined ? undefined : `${key}: ${textOfKey(key, value)}`;
    if (now !== undefined) line(truthy(row["delete"]) ? `del ${now}` : `cur ${now}`);
    if (pending !== undefined && !truthy(row["delete"])) line(`new ${key}: ${textOfKey(key, pending)}`);
  }
}

export function showSnapshots(data: unknown, line: Line): void {
  const rows = pveRows(data, "the list of snapshots");
  const names = new Set(rows.map(({ name }) => name));
  // What is now has no time: it comes last.
  const children = (parent: string | undefined): readonly PveRow[] =>
    rows
      .filter((row) => (names.has(row["parent"]) ? row["parent"] : undefined) === parent)
      .toSorted((one, other) => Number(one["snaptime"] ?? Infinity) - Number(other["snaptime"] ?? Infinity));
  const show = (row: PveRow, prefix: string): void => {
    const name = valueText(row["name"]);
    const time = row["snaptime"] === undefined ? "" : timestamp(Number(row["snaptime"]));
    const about = valueText(row["description"]).split("\n")[0] || "no-description";
    line(`${prefix} ${name.padEnd(Math.max(0, 30 - prefix.length))} ${time.padEnd(23)} ${about}`);
    for (const child of children(name)) show(child, `    ${prefix}`);
  };
  for (const root of children(undefined)) show(root, "`->");
}

export function showAgentResult(data: unknown, line: Line): void {
  const result = isObject(data) && "result" in data ? data["result"] : data;
  if (result === undefined || result === null) return;
  if (typeof result !== "object") {
    const text = valueText(result).trimEnd();
    if (text !== "") line(text);
  } else if (Object.keys(result).length > 0) line(prettyJson(result));
}

/** `qm status --verbose`: what is inside something is one tab further in. */
export function showTree(value: unknown, line: Line, key?: string, prefix = ""): void {
  if (value === undefined || value === null) return;
  if (typeof value !== "object") {
    line(`${prefix}${key === undefined ? "" : `${key}: `}${valueText(value)}`);
    return;
  }
  if (key !== undefined) line(`${prefix}${key}:`);
  if (Array.isArray(value)) for (const item of value) showTree(item, line, undefined, `\t${prefix}`);
  else
    for (const [name, item] of Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1)))
      showTree(item, line, name, `\t${prefix}`);
}

/** One line, whatever is in it. */
function textOfKey(key: string, value: unknown): string {
  const text = valueText(value);
  if (key !== "description") return text;
  // oxlint-disable-next-line no-control-regex -- control characters are what is escaped
  return text.replaceAll(/[\u0000-\u001f%\u007f-\u{10ffff}]/gu, (char) => encodeURIComponent(char));
}

function sortedBy(data: unknown, key: string): readonly PveRow[] {
  return pveRows(data, "the answer").toSorted((one, other) =>
    valueText(one[key]) < valueText(other[key]) ? -1 : 1,
  );
}
