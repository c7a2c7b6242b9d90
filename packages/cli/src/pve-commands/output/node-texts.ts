// Texts of `pvenode`, as PVE prints them.
import { pveRows } from "@gpve/client/pve-client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { valueText } from "./value-text.ts";

type Line = (text: string) => void;

export function showNodeConfig(data: unknown, line: Line): void {
  const config = isObject(data) ? data : {};
  for (const key of Object.keys(config).toSorted())
    if (key !== "digest" && key !== "description") line(`${key}: ${valueText(config[key])}`);
}

export function showCertificates(data: unknown, line: Line): void {
  for (const row of pveRows(data, "the certificates")) {
    line(`Certificate '${valueText(row["filename"])}'`);
    const texts = { FP: "fingerprint", Subject: "subject", Issuer: "issuer" };
    for (const [title, key] of Object.entries(texts))
      if (row[key] !== undefined) line(`\t${title}: '${valueText(row[key])}'`);
    for (const [title, key] of Object.entries({ notBefore: "notbefore", notAfter: "notafter" }))
      if (row[key] !== undefined) line(`\t${title}: ${unixDate(Number(row[key]))}`);
    const names = Array.isArray(row["san"]) ? row["san"] : [];
    if (names.length > 0) line("\tSubjectAlternativeNames:");
    for (const name of names) line(`\t\t-${valueText(name)}`);
    line("");
  }
}

export function showTaskLog(data: unknown, line: Line): void {
  for (const row of pveRows(data, "the task's log")) line(valueText(row["t"]));
}

/** "Fri Jan  2 03:04:05 2026" */
function unixDate(seconds: number): string {
  const [day = "", month = "", date = "", year = "", time = ""] = new Date(seconds * 1000)
    .toString()
    .split(" ");
  return `${day} ${month} ${String(Number(date)).padStart(2)} ${time} ${year}`;
}
