// Backup jobs: what they hold, how a change is merged, what they answer, which guests they take.
import { parameterError } from "../request/failures.ts";
import type { GuestRecord } from "../guest/guest-record.ts";
import { parseCalendarEvent, type CalendarEvent } from "../calendar/calendar-event.ts";
import { parsePropertyString } from "../schema/check.ts";
import type { VirtualClusterRecord } from "../vcluster/vcluster-record.ts";
import { isSaveable } from "../vcluster/backup/saveable-cluster.ts";
import { splitList } from "../schema/list.ts";
import { methodByKey } from "../schema/method-table.ts";
import { shownProperties } from "../schema/property-string.ts";

export type JobValue = string | number | boolean | readonly string[];
export type JobOptions = Readonly<Record<string, JobValue>>;

export interface BackupJob {
  readonly id: string;
  readonly options: JobOptions;
  /** Seconds: when it was made, or its schedule or switch last changed. Nothing before that is due. */
  readonly since: number;
}

export const backupJobCollection = {
  prefix: "/gpve/backup-jobs/",
  decode: (json: unknown) => json as BackupJob,
};

const PROPERTY_STRINGS = ["fleecing", "performance", "prune-backups"];
/** Options of the job itself, which no backup run knows. */
const OF_THE_JOB = [
  "comment",
  "enabled",
  "repeat-missed",
  "schedule",
  "all",
  "exclude",
  "node",
  "pool",
  "vmid",
];
/** `dow` and `starttime` are read, and kept as a schedule. */
const LEGACY = ["dow", "starttime"];

/** A new job. Throws PVE's parameter errors. */
export function newJob(id: string, given: JobOptions, nowSeconds: number): BackupJob {
  const options = checkSelection(withCalendar({ enabled: true, ...given }, true), true);
  return { id, options, since: nowSeconds };
}

export function changedJob(
  job: BackupJob,
  given: JobOptions,
  remove: readonly string[],
  nowSeconds: number,
): BackupJob {
  const unknown = remove.find((key) => !isOption(key));
  if (unknown !== undefined) throw parameterError({ delete: `unknown option '${unknown}'` });
  const set = checkSelection(withCalendar(given, false), false);
  const next: Record<string, JobValue> = { ...job.options };
  for (const key of remove) delete next[key];
  Object.assign(next, set);
  if (next["exclude"] !== undefined && next["pool"] === undefined) next["all"] = true;
  // The newest choice of guests wins over the older ones.
  const dropped =
    set["vmid"] !== undefined
      ? ["all", "exclude", "pool"]
      : set["all"] === true
        ? ["vmid", "pool"]
        : next["pool"] === undefined
          ? []
          : ["vmid", "all", "exclude"];
  for (const key of dropped) delete next[key];
  const options = checkSelection(next, true);
  const moved = ["schedule", "enabled"].some((key) => options[key] !== job.options[key]);
  return { ...job, options, since: moved ? nowSeconds : job.since };
}

/** Without a guest that is gone; undefined when the job was about nobody else. */
export function jobWithoutGuest(job: BackupJob, vmid: number): BackupJob | undefined {
  const options: Record<string, JobValue> = { ...job.options };
  for (const key of ["vmid", "exclude"]) {
    const text = options[key];
    if (typeof text !== "string") continue;
    const left = splitList(text).filter((each) => each !== String(vmid));
    if (left.length > 0) options[key] = left.join(",");
    else if (key === "vmid") return undefined;
    else delete options[key];
  }
  return { ...job, options };
}

/** As the API shows it: property strings read. */
export function shownJob(job: BackupJob): Record<string, unknown> {
  const shown: Record<string, unknown> = { ...job.options };
  for (const key of PROPERTY_STRINGS) {
    const text = job.options[key];
    const format = methodByKey("POST /cluster/backup")?.parameters[key]?.format;
    if (typeof text !== "string" || format === undefined) continue;
    const parsed = parsePropertyString(format, text, key);
    if (!parsed.ok) continue;
    shown[key] = shownProperties(parsed.value);
  }
  return { ...shown, id: job.id, type: "vzdump" };
}

export function calendarOf(job: BackupJob): CalendarEvent | undefined {
  const text = job.options["schedule"];
  const parsed = typeof text === "string" ? parseCalendarEvent(text) : undefined;
  return parsed?.ok === true ? parsed.event : undefined;
}

export function isEnabled({ options }: BackupJob): boolean {
  return options["enabled"] !== false;
}

/** What one node is asked to do: the job's options for a backup, with the guests spelled out. */
export function runParameters(job: BackupJob, vmids: readonly number[]): Record<string, JobValue> {
  const kept = Object.entries(job.options).filter(([key]) => !OF_THE_JOB.includes(key));
  return { ...Object.fromEntries(kept), vmid: vmids.join(","), quiet: true, "job-id": job.id };
}

/** The VMIDs a job takes, ascending, with the node of each; undefined = there is no such guest. */
export function includedGuests(
  { options }: BackupJob,
  guests: readonly GuestRecord[],
  poolMembers: (pool: string) => readonly number[],
): readonly { readonly vmid: number; readonly node: string | undefined }[] {
  const nodes = new Map(guests.map(({ vmid, node }) => [vmid, node]));
  return [...new Set(selected(options, [...nodes.keys()], poolMembers))]
    .toSorted((a, b) => a - b)
    .map((vmid) => ({ vmid, node: nodes.get(vmid) }))
    .filter(({ node }) => node === undefined || options["node"] === undefined || options["node"] === node);
}

/** The virtual clusters a job takes: all, or those of its pool. They have no VMID, so a job by VMIDs takes none. */
export function includedClusters(
  { options }: BackupJob,
  clusters: readonly VirtualClusterRecord[],
): readonly VirtualClusterRecord[] {
  const { pool, vmid, node } = options;
  // An archive of theirs lies on a storage.
  if (isGiven(vmid) || isGiven(options["dumpdir"])) return [];
  if (!isGiven(pool) && options["all"] !== true) return [];
  return clusters
    .filter((cluster) => isSaveable(cluster) && (!isGiven(pool) || cluster.tenant === pool))
    .filter((cluster) => node === undefined || cluster.node === node)
    .toSorted((a, b) => a.name.localeCompare(b.name));
}

/** What the node of one is asked to do, beside which cluster it is. */
export function clusterRunParameters({ options }: BackupJob): {
  readonly storage: string;
  readonly prune?: string;
  readonly protected?: boolean;
} {
  const { storage, remove, protected: isProtected } = options;
  const rules = remove === false ? "keep-all=1" : options["prune-backups"];
  return {
    storage: typeof storage === "string" ? storage : "local",
    ...(typeof rules === "string" ? { prune: rules } : {}),
    ...(isProtected === true ? { protected: true } : {}),
  };
}

function selected(
  options: JobOptions,
  all: readonly number[],
  poolMembers: (pool: string) => readonly number[],
): readonly number[] {
  const { pool, vmid } = options;
  if (typeof pool === "string") return poolMembers(pool);
  if (typeof vmid === "string") return splitList(vmid).map(Number);
  if (options["all"] !== true) return [];
  const excluded = new Set(splitList(String(options["exclude"] ?? "")).map(Number));
  return all.filter((id) => !excluded.has(id));
}

function withCalendar(given: JobOptions, required: boolean): JobOptions {
  const { starttime, dow, ...rest } = given;
  if (rest["schedule"] !== undefined) {
    if (starttime !== undefined)
      throw parameterError({ starttime: "'starttime' and 'schedule' cannot both be set" });
    return rest;
  }
  if (starttime === undefined) {
    if (required) throw parameterError({ schedule: "neither 'starttime' nor 'schedule' were set" });
    return rest;
  }
  const days = typeof dow === "string" ? `${splitList(dow).join(",")} ` : "";
  const [hour, minute] = String(starttime).split(":");
  if (Number(hour) > 23) throw parameterError({ starttime: `hour '${hour}' out of range` });
  if (Number(minute) > 59) throw parameterError({ starttime: `minute '${minute}' out of range` });
  return { ...rest, schedule: `${days}${String(starttime)}` };
}

function checkSelection(options: JobOptions, complete: boolean): JobOptions {
  const { all, exclude, pool, vmid, stop } = options;
  const conflict = "option conflicts with option 'vmid'";
  if (all === true && isGiven(vmid)) throw parameterError({ all: conflict });
  if (isGiven(exclude) && isGiven(vmid)) throw parameterError({ exclude: conflict });
  if (isGiven(pool) && isGiven(vmid)) throw parameterError({ pool: conflict });
  if (/\n/.test(String(options["notes-template"] ?? "")))
    throw parameterError({ "notes-template": "contains a line feed" });
  const checked = exclude !== undefined && !isGiven(pool) ? { ...options, all: true } : options;
  if (complete && checked["all"] !== true && stop !== true && !isGiven(pool) && !isGiven(vmid))
    throw parameterError({ vmid: "property is missing" });
  return checked;
}

function isGiven(value: JobValue | undefined): boolean {
  return value !== undefined && value !== "";
}

function isOption(key: string): boolean {
  const known = methodByKey("POST /cluster/backup")?.parameters ?? {};
  return Object.hasOwn(known, key) && ![...LEGACY, "id", "schedule", "enabled"].includes(key);
}
