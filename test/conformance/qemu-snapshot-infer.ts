// What a snapshot case probably asks, read off its two files: the difference between them names the snapshot, shows
// a saved RAM, and tells a request that was carried out from one that failed.
import { given } from "@gpve/contracts/given.ts";
import { listDisks } from "@gpve/domain/vm/config/drive.ts";
import type { SavedVmState } from "@gpve/domain/vm/snapshot/vm-snapshot-rules.ts";
import type { VmConfig, VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { readConfig, runCase, TROUBLES, type Asked, type Outcome, type Phase } from "./qemu-snapshot-host.ts";

export interface CaseFiles {
  readonly phase: Phase;
  readonly vmid: number;
  readonly input: string;
  readonly expected: string;
}

export interface Inferred {
  /** The request that leads from one file to the other; undefined when none of those tried does. */
  readonly asked: Asked | undefined;
  /** What became of that request, or of the likeliest when none fits. */
  readonly outcome: Outcome;
  readonly tried: number;
}

type Ending = "done" | "refused" | "either";

/** Names a case may use for a snapshot that neither file has. */
const ABSENT = "test-absent";

/** Runs the likely requests, likeliest first, until one does what the files say. */
export async function inferCase(files: CaseFiles): Promise<Inferred> {
  const before = readConfig(files.vmid, files.input);
  const after = readConfig(files.vmid, files.expected);
  const ending = endingOf(files, before, after);
  const requests = candidates(files, before, after, ending);
  let likeliest: Outcome | undefined;
  for (const asked of requests) {
    const outcome = await runCase(files.input, asked);
    likeliest ??= outcome;
    if (fits(files, before, asked, outcome, ending))
      return { asked, outcome, tried: requests.indexOf(asked) + 1 };
  }
  if (likeliest === undefined) throw new Error(`nothing to try for ${files.phase} ${files.vmid}`);
  return { asked: undefined, outcome: likeliest, tried: requests.length };
}

/** Whether the files bear out what a case is believed to ask: that it succeeds or fails, its name, the RAM it saves. */
export function agreesWith(files: CaseFiles, asked: Asked & { readonly error?: string }): boolean {
  const before = readConfig(files.vmid, files.input);
  const after = readConfig(files.vmid, files.expected);
  if (endingOf(files, before, after) !== (asked.error === undefined ? "done" : "refused")) return false;
  if (asked.error !== undefined || asked.phase === "delete" || asked.phase === "rollback") return true;
  const made = after.snapshots[asked.name];
  return (
    made !== undefined &&
    (made["vmstate"] !== undefined) === (asked.withState ?? made["vmstate"] !== undefined)
  );
}

/** `delete of 'test' with force`, for the line that says what was inferred. */
export function describeAsked(asked: Asked): string {
  const extras = [
    asked.withState === true ? "with RAM" : "",
    asked.force === true ? "forced" : "",
    asked.stopped === true ? "guest stopped" : "",
    asked.anyVolume === true ? "any volume" : "",
    asked.trouble === undefined ? "" : `trouble ${asked.trouble}`,
  ].filter((each) => each !== "");
  return [`${asked.phase} ${asked.vmid} '${asked.name}'`, ...extras].join(", ");
}

function endingOf({ phase, input, expected }: CaseFiles, before: VmConfig, after: VmConfig): Ending {
  const had = Object.keys(before.snapshots);
  const has = Object.keys(after.snapshots);
  switch (phase) {
    case "prepare":
    case "create":
      return has.some((name) => !had.includes(name)) ? "done" : "refused";
    case "delete":
      return had.some((name) => !has.includes(name)) ? "done" : "refused";
    case "commit":
      return input === expected ? "refused" : "done";
    case "rollback":
      // Going back to what is there already changes nothing either.
      if (input === expected) return "either";
      return after.values["lock"] === undefined ? "done" : "refused";
  }
}

function candidates(files: CaseFiles, before: VmConfig, after: VmConfig, ending: Ending): Asked[] {
  const { phase, vmid } = files;
  const requests: Asked[] = [];
  const troubles = ending === "done" ? [undefined] : [undefined, ...TROUBLES];
  for (const name of names(phase, before, after)) {
    const base: Asked = { phase, vmid, name, ...remembered(after, name) };
    for (const trouble of troubles) {
      for (const variant of variants(phase, ending, after.snapshots[name]))
        requests.push({ ...base, ...variant, ...given({ trouble }) });
    }
  }
  // Storage of names that no known case has: last, as it proves least.
  return ending === "refused"
    ? requests
    : [...requests, ...requests.map((each) => ({ ...each, anyVolume: true }))];
}

/** The snapshots that differ first; then all that are there; then one that is not. */
function names(phase: Phase, before: VmConfig, after: VmConfig): string[] {
  const all = [...new Set([...Object.keys(before.snapshots), ...Object.keys(after.snapshots)])];
  const changed = all.filter(
    (name) => JSON.stringify(before.snapshots[name]) !== JSON.stringify(after.snapshots[name]),
  );
  const parent = after.values["parent"];
  if (phase === "rollback" && parent !== undefined && all.includes(parent))
    return [...new Set([parent, ...all, ABSENT])];
  return [...new Set([...changed, ...all, ABSENT])];
}

type Variant = Pick<Asked, "withState" | "force" | "stopped">;

function variants(phase: Phase, ending: Ending, made: VmValues | undefined): Variant[] {
  if (phase === "delete") return [{}, { force: true }];
  if (phase === "rollback" || phase === "commit") return [{}];
  if (ending !== "done") return [{}, { withState: true }];
  return made?.["vmstate"] === undefined ? [{}, { stopped: true }] : [{ withState: true }];
}

/** What only the result tells: the snapshot's time, its text, where its RAM is, a generation id made up. */
function remembered(
  after: VmConfig,
  name: string,
): Pick<Asked, "description" | "snaptime" | "state" | "uuid"> {
  const made = after.snapshots[name];
  const generation = after.values["vmgenid"];
  const uuid = generation === undefined ? {} : { uuid: generation };
  if (made === undefined) return uuid;
  const state: Record<string, string> = {};
  for (const key of ["vmstate", "runningmachine", "runningcpu", "running-nets-host-mtu"]) {
    if (made[key] !== undefined) state[key] = made[key];
  }
  return {
    ...uuid,
    description: made["description"] ?? "",
    ...(made["snaptime"] === undefined ? {} : { snaptime: Number(made["snaptime"]) }),
    ...(state["vmstate"] === undefined ? {} : { state: state as unknown as SavedVmState }),
  };
}

function fits(files: CaseFiles, before: VmConfig, asked: Asked, outcome: Outcome, ending: Ending): boolean {
  if (outcome.text !== files.expected) return false;
  if (ending === "refused") return outcome.error !== undefined;
  if (ending === "done" && outcome.error !== undefined) return false;
  return outcome.error !== undefined || everyVolume(before, asked, outcome);
}

/** A request that was carried out reached every disk; only force lets one be left. */
function everyVolume(before: VmConfig, { phase, name, force }: Asked, outcome: Outcome): boolean {
  const disks = (values: VmValues | undefined) => (values === undefined ? 0 : listDisks(values).length);
  switch (phase) {
    case "create":
      return outcome.touched.length === disks(before.values);
    case "delete":
      return force === true || outcome.removed.length === disks(before.snapshots[name]);
    case "rollback":
      return outcome.touched.length === disks(before.snapshots[name]);
    case "prepare":
    case "commit":
      return true;
  }
}
