// A node's own defaults of backups, as PVE keeps them in /etc/vzdump.conf: `key: value` lines.
import { given } from "@gpve/contracts/given.ts";
import { methodByKey } from "../schema/method-table.ts";
import { validateParams } from "../schema/validate-params.ts";

export type VzdumpSettings = Readonly<Record<string, unknown>>;

export interface ReadSettings {
  readonly settings: VzdumpSettings;
  /** Lines that cannot be used, and why. */
  readonly problems: readonly string[];
}

/** Which guests a backup is about is never a default. */
const OF_ONE_REQUEST = new Set(["node", "vmid", "all", "exclude", "stop", "stdout", "quiet", "job-id"]);
const HIDDEN_WITHOUT_AUDIT = ["mailto", "tmpdir", "dumpdir", "script", "ionice"];

export function parseVzdumpConf(text: string): ReadSettings {
  const method = methodByKey("POST /nodes/{node}/vzdump");
  const settings: Record<string, unknown> = {};
  const problems: string[] = [];
  for (const line of text.split("\n")) {
    if (/^\s*(?:#|$)/.test(line)) continue;
    const [, key = "", value = ""] = /^\s*([\w-]+)\s*:\s*(.*?)\s*$/.exec(line) ?? [];
    if (method === undefined || method.parameters[key] === undefined || OF_ONE_REQUEST.has(key)) {
      problems.push(`unable to parse line: ${line}`);
      continue;
    }
    // Options that need another one are checked with it, in the request.
    const related = { node: "localhost", storage: "local", [key]: value };
    const checked = validateParams(method, related, { source: "form" });
    if (checked.ok) settings[key] = checked.params[key];
    else problems.push(`invalid value in line: ${line}`);
  }
  return { settings, problems };
}

/** A node that says nowhere where backups go has them where the cluster wants them. */
export function withDefaultStorage(settings: VzdumpSettings, storage: string | undefined): VzdumpSettings {
  const isPlaced = settings["storage"] !== undefined || settings["dumpdir"] !== undefined;
  return isPlaced || storage === undefined ? settings : { ...settings, storage };
}

/** As GET defaults answers: PVE's own defaults, the node's settings over them, the storage's over those. */
export function shownDefaults(
  settings: VzdumpSettings,
  storage: { readonly id: string; readonly dumpdir?: string; readonly prune?: string } | undefined,
): Record<string, unknown> {
  const builtin: Record<string, unknown> = {};
  const { properties = {} } = methodByKey("GET /nodes/{node}/vzdump/defaults")?.returns ?? {};
  for (const [key, { default: value, type }] of Object.entries(properties)) {
    if (value !== undefined && !OF_ONE_REQUEST.has(key)) {
      builtin[key] = type === "integer" || type === "boolean" ? Number(value) : value;
    }
  }
  return {
    ...builtin,
    all: 0,
    quiet: 0,
    stop: 0,
    ...settings,
    ...(storage === undefined
      ? {}
      : {
          storage: storage.id,
          ...given({ dumpdir: storage.dumpdir, "prune-backups": storage.prune }),
        }),
  };
}

/** What people without Sys.Audit on the node, or Pool.Audit on the pool, do not get to know. */
export function visibleDefaults(
  shown: Readonly<Record<string, unknown>>,
  may: { readonly auditNode: boolean; readonly auditPool: (pool: string) => boolean },
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(shown).filter(([key, value]) => {
      if (key === "pool") return may.auditPool(String(value));
      return may.auditNode || !HIDDEN_WITHOUT_AUDIT.includes(key);
    }),
  );
}
