// Which backups go and which stay: PVE's keep-* rules. Pure; civil times are given, because days, weeks and months
// are those of the node's own time zone.
import type { CivilTime } from "../calendar/civil-time.ts";

export interface KeepOptions {
  readonly "keep-all"?: boolean;
  readonly "keep-last"?: number;
  readonly "keep-hourly"?: number;
  readonly "keep-daily"?: number;
  readonly "keep-weekly"?: number;
  readonly "keep-monthly"?: number;
  readonly "keep-yearly"?: number;
}

export type PruneMark = "keep" | "remove" | "protected" | "renamed";

export interface PruneCandidate {
  readonly volid: string;
  /** Seconds since 1970. */
  readonly ctime: number;
  readonly type: string;
  readonly vmid?: number;
  /** Named by the standard scheme; others are never touched. */
  readonly standard: boolean;
  readonly protected: boolean;
  /** Archive (volid) that this one cannot be read without. */
  readonly parent?: string;
}

export type CivilHour = Omit<CivilTime, "minute" | "second">;

export type Pruned<T extends PruneCandidate> = T & { readonly mark: PruneMark };

/** Marks every backup, in the order given. */
export function markBackups<T extends PruneCandidate>(
  backups: readonly T[],
  keep: KeepOptions,
  civil: (ctime: number) => CivilHour,
): Pruned<T>[] {
  const marks = new Map<T, PruneMark>();
  const groups = new Map<string, T[]>();
  for (const backup of backups) {
    if (!backup.standard) marks.set(backup, "renamed");
    if (backup.protected) marks.set(backup, "protected");
    if (!backup.standard) continue;
    const key = `${backup.type}/${backup.vmid}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [backup]);
    else group.push(backup);
  }
  for (const group of groups.values()) markGroup(group, keep, civil, marks);
  keepAncestors(backups, marks);
  return backups.map((backup) => ({ ...backup, mark: marks.get(backup) ?? "keep" }));
}

function markGroup<T extends PruneCandidate>(
  group: readonly T[],
  keep: KeepOptions,
  civil: (ctime: number) => CivilHour,
  marks: Map<T, PruneMark>,
): void {
  const counts = [
    ["keep-last", (ctime: number) => String(ctime)],
    ["keep-hourly", byCivil(civil, ({ hour, day, month, year }) => `${hour}/${day}/${month}/${year}`)],
    ["keep-daily", byCivil(civil, ({ day, month, year }) => `${day}/${month}/${year}`)],
    ["keep-weekly", byCivil(civil, isoWeek)],
    ["keep-monthly", byCivil(civil, ({ month, year }) => `${month}/${year}`)],
    ["keep-yearly", byCivil(civil, ({ year }) => String(year))],
  ] as const;
  const nothingAsked = counts.every(([name]) => (keep[name] ?? 0) === 0);
  if (keep["keep-all"] === true || nothingAsked) {
    for (const backup of group) if (!marks.has(backup)) marks.set(backup, "keep");
    return;
  }
  const newestFirst = group.toSorted((a, b) => b.ctime - a.ctime);
  for (const [name, idOf] of counts) markBy(newestFirst, keep[name] ?? 0, idOf, marks);
  for (const backup of newestFirst) if (!marks.has(backup)) marks.set(backup, "remove");
}

/** Keeps the newest of each of the `count` newest periods that no earlier rule already keeps something of. */
function markBy<T extends PruneCandidate>(
  newestFirst: readonly T[],
  count: number,
  idOf: (ctime: number) => string,
  marks: Map<T, PruneMark>,
): void {
  if (count === 0) return;
  const included = new Set(
    newestFirst.filter((backup) => marks.get(backup) === "keep").map((backup) => idOf(backup.ctime)),
  );
  const fresh = new Set<string>();
  for (const backup of newestFirst) {
    const id = idOf(backup.ctime);
    if (marks.has(backup) || included.has(id)) continue;
    if (fresh.has(id)) {
      marks.set(backup, "remove");
      continue;
    }
    if (fresh.size >= count) break;
    fresh.add(id);
    marks.set(backup, "keep");
  }
}

/** An incremental archive is worth nothing without those it builds on. */
function keepAncestors<T extends PruneCandidate>(backups: readonly T[], marks: Map<T, PruneMark>): void {
  const byVolid = new Map(backups.map((backup) => [backup.volid, backup]));
  for (const backup of backups) {
    if (marks.get(backup) === "remove") continue;
    const seen = new Set<string>();
    let parent = backup.parent;
    while (parent !== undefined && !seen.has(parent)) {
      seen.add(parent);
      const entry = byVolid.get(parent);
      if (entry === undefined) break;
      if (marks.get(entry) === "remove") marks.set(entry, "keep");
      parent = entry.parent;
    }
  }
}

function byCivil(
  civil: (ctime: number) => CivilHour,
  id: (time: CivilHour) => string,
): (ctime: number) => string {
  return (ctime) => id(civil(ctime));
}

/** ISO 8601 week and its year: the week belongs to the year of its Thursday. */
function isoWeek({ year, month, day }: CivilHour): string {
  const date = new Date(Date.UTC(year, month - 1, day));
  const weekday = date.getUTCDay() === 0 ? 7 : date.getUTCDay();
  date.setUTCDate(date.getUTCDate() + 4 - weekday);
  const first = Date.UTC(date.getUTCFullYear(), 0, 1);
  const week = Math.ceil(((date.getTime() - first) / 86_400_000 + 1) / 7);
  return `${week}/${date.getUTCFullYear()}`;
}

const KEEP_NAMES = [
  "keep-all",
  "keep-last",
  "keep-hourly",
  "keep-daily",
  "keep-weekly",
  "keep-monthly",
  "keep-yearly",
] as const;

/** From the property string, which was checked against its schema before. */
export function parseKeepOptions(text: string): KeepOptions {
  const out: Record<string, number | boolean> = {};
  for (const part of text.split(",")) {
    const [name = "", value = ""] = part.split("=", 2).map((each) => each.trim());
    if (!(KEEP_NAMES as readonly string[]).includes(name)) continue;
    out[name] = name === "keep-all" ? /^(?:1|on|yes|true)$/i.test(value) : Number(value);
  }
  return out as KeepOptions;
}
