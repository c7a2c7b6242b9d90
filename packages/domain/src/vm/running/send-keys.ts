// PVE's key names are those of QEMU's monitor: "ctrl-alt-delete", "ret", "0x1c", "<".
import { refused } from "../../request/failures.ts";
import type { AppError } from "@gpve/contracts/errors.ts";

export type SentKey =
  | { readonly type: "qcode"; readonly data: string }
  | { readonly type: "number"; readonly data: number };

const MAX_KEYS = 16;

export function parseKeys(text: string): readonly SentKey[] {
  const names = text.split("-");
  if (names.length > MAX_KEYS) throw invalid(text);
  return names.map((name) => {
    if (/^0x[0-9a-fA-F]{1,4}$/.test(name)) return { type: "number", data: Number.parseInt(name, 16) };
    if (name === "<") return { type: "qcode", data: "less" };
    if (!/^[a-z0-9_]{1,40}$/i.test(name)) throw invalid(name);
    return { type: "qcode", data: name };
  });
}

function invalid(name: string): AppError {
  return refused(`invalid parameter: ${name}`);
}
