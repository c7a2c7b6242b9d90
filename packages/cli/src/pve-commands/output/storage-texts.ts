// Texts of `pvesm`, as PVE prints them.
import { pveRows } from "@gpve/client/pve-client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { truthy, valueText } from "./value-text.ts";

type Line = (text: string) => void;

export function showStorages(data: unknown, line: Line): void {
  const rows = pveRows(data, "the list of storages").toSorted((one, other) =>
    valueText(one["storage"]) < valueText(other["storage"]) ? -1 : 1,
  );
  const width = Math.max(0, ...rows.map((row) => valueText(row["storage"]).length)) + 1;
  const columns = (name: string, type: string, status: string, sizes: readonly string[], used: string) =>
    [name.padEnd(width), type.padStart(10), status.padStart(10), ...sizes, used.padStart(8)].join(" ");
  const wide = (text: string): string => text.padStart(15);
  line(columns("Name", "Type", "Status", ["Total", "Used", "Available"].map(wide), "%"));
  for (const row of rows) {
    const [total, used, free] = ["total", "used", "avail"].map((key) => Number(row[key] ?? 0));
    const isEnabled = truthy(row["enabled"]);
    const status = !isEnabled ? "disabled" : truthy(row["active"]) ? "active" : "inactive";
    const share = (total ?? 0) > 0 ? ((used ?? 0) * 100) / (total ?? 1) : 0;
    const kib = [total, used, free].map((bytes) => wide(String(Math.trunc((bytes ?? 0) / 1024))));
    const shown = isEnabled ? `${share.toFixed(2)}%` : "N/A";
    line(columns(valueText(row["storage"]), valueText(row["type"]), status, kib, shown));
  }
}

export function showContent(data: unknown, line: Line): void {
  const rows = pveRows(data, "the list of volumes");
  const width = Math.max(0, ...rows.map((row) => valueText(row["volid"]).length));
  const digits = String(Math.max(0, ...rows.map((row) => Number(row["size"] ?? 0)))).length;
  const columns = (volid: string, format: string, type: string, size: string): string =>
    `${volid.padEnd(width)} ${format.padEnd(7)} ${type.padEnd(9)} ${size.padStart(digits)}`;
  const show = (row: (typeof rows)[number]): string =>
    columns(
      valueText(row["volid"]),
      valueText(row["format"]),
      valueText(row["content"]),
      valueText(row["size"]),
    );
  line(`${columns("Volid", "Format", "Type", "Size")} VMID`);
  for (const row of rows) if (truthy(row["vmid"])) line(`${show(row)} ${valueText(row["vmid"])}`);
  const others = rows.filter((row) => !truthy(row["vmid"]));
  for (const row of others.toSorted((one, other) =>
    valueText(one["format"]).localeCompare(valueText(other["format"])),
  ))
    line(show(row));
}

/** Each row's values, the first ones aligned. */
export function showColumns(keys: readonly string[]): (data: unknown, line: Line) => void {
  return (data, line) => {
    const rows = pveRows(data, "the scan").map((row) => keys.map((key) => valueText(row[key])));
    const width = Math.max(0, ...rows.map(([first = ""]) => first.length));
    for (const [first = "", ...more] of rows)
      line(more.length === 0 ? first : [first.padEnd(width), ...more].join(" "));
  };
}

export function showPruned(data: unknown, line: Line): void {
  if (!isObject(data) || data["dryrun"] !== 1) return;
  const rows = pveRows(data["list"], "the backups").toSorted(
    (one, other) =>
      Number(one["vmid"] ?? 0) - Number(other["vmid"] ?? 0) || Number(one["ctime"]) - Number(other["ctime"]),
  );
  if (rows.length === 0) {
    line("No backups found");
    return;
  }
  line("NOTE: this is only a preview and might not be what a subsequent");
  line("prune call does if backups are removed/added in the meantime.\n");
  const width = Math.max(...rows.map((row) => valueText(row["volid"]).length)) + 1;
  const columns = (volid: string, id: string, mark: string): string =>
    `${volid.padEnd(width)} ${id.padStart(15)} ${mark.padStart(10)}`;
  line(columns("Backup", "Backup-ID", "Prune-Mark"));
  for (const row of rows) {
    const { type, vmid } = row;
    const id = vmid === undefined ? valueText(type) : `${valueText(type)}/${valueText(vmid)}`;
    line(columns(valueText(row["volid"]), id, valueText(row["mark"])));
  }
}
