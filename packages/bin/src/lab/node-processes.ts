// Which processes are a lab node's: those in its network namespace, those in cgroups of its data directory (guests,
// supervisors and tools, which may have networks of their own), and whatever any of them has started.
import { readFileSync, readdirSync, readlinkSync, statSync } from "node:fs";
import { ignore } from "@gpve/kit/background.ts";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import { sendSignal } from "../long-lived-process.ts";

export interface FoundProcess {
  readonly pid: number;
  readonly parent: number;
  /** "R", "S", "T", ... */
  readonly state: string;
  /** "net:[4026531992]"; undefined = it is going. */
  readonly network: string | undefined;
  /** Text of /proc/PID/cgroup. */
  readonly cgroups: string;
}

export interface NodeMarks {
  /** "net:[INODE]"; undefined = the namespace is gone. */
  readonly network: string | undefined;
  /** undefined = the node has never run. */
  readonly instanceId: string | undefined;
}

/** Pure, so that it can be tried on any machine's processes. */
export function processesOf(all: readonly FoundProcess[], marks: NodeMarks): FoundProcess[] {
  // Those of virtual clusters are in networks and groups of their own.
  const group =
    marks.instanceId === undefined ? undefined : new RegExp(`/gpve-${marks.instanceId}(-vc)?(/|$)`, "m");
  const own = new Set<number>();
  for (const { pid, network, cgroups } of all)
    if ((marks.network !== undefined && network === marks.network) || group?.test(cgroups) === true)
      own.add(pid);
  for (let grew = true; grew;) {
    grew = false;
    for (const { pid, parent } of all)
      if (!own.has(pid) && own.has(parent)) {
        own.add(pid);
        grew = true;
      }
  }
  return all.filter(({ pid }) => own.has(pid));
}

export function marksOf(node: { readonly namespace: string; readonly folder: string }): NodeMarks {
  return {
    network: namespaceMark(`/run/netns/${node.namespace}`),
    instanceId: instanceOf(node.folder),
  };
}

export function nodeProcesses(node: { readonly namespace: string; readonly folder: string }): FoundProcess[] {
  return processesOf(allProcesses(), marksOf(node));
}

/** Sends it to all of them, also to those that are being started while we look. */
export function signalNode(
  node: { readonly namespace: string; readonly folder: string },
  signal: NodeJS.Signals,
): number {
  const told = new Set<number>();
  for (let found = true; found;) {
    found = false;
    for (const { pid } of nodeProcesses(node)) {
      if (told.has(pid)) continue;
      told.add(pid);
      found = true;
      sendSignal(pid, signal);
    }
  }
  return told.size;
}

function allProcesses(): FoundProcess[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      const [state = "", parent = "0"] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      if (state === "Z" || state === "X") return [];
      const cgroups = readTextFile(`/proc/${name}/cgroup`) ?? "";
      return [
        {
          pid: Number(name),
          parent: Number(parent),
          state,
          network: linkOf(`/proc/${name}/ns/net`),
          cgroups,
        },
      ];
    } catch (err) {
      ignore(err, "it has just ended");
      return [];
    }
  });
}

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch (err) {
    ignore(err, "a process that is ending has no namespaces any more");
    return undefined;
  }
}

function namespaceMark(path: string): string | undefined {
  const inode = statSync(path, { throwIfNoEntry: false })?.ino;
  return inode === undefined ? undefined : `net:[${inode}]`;
}

function instanceOf(folder: string): string | undefined {
  const text = readTextFile(`${folder}/instance.json`);
  return text === undefined ? undefined : (JSON.parse(text) as { instanceId?: string }).instanceId;
}
