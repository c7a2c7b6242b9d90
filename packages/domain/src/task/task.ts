// A task as PVE clients see it: the durable operation behind it, flattened.
import { given } from "@gpve/contracts/given.ts";
import { actorOf } from "../request/context.ts";
import { parseUpid, type Upid } from "./upid.ts";

export interface Task extends Omit<Upid, "user"> {
  readonly upid: string;
  /** Who started it: "joe@pve" or "joe@pve!ci". */
  readonly authid: string;
  /** Seconds; absent while it runs or waits. */
  readonly endtime?: number;
  /** "OK", "WARNINGS: n", "unexpected status" or the error text; absent while it runs or waits. */
  readonly exitstatus?: string;
}

export interface TaskEnd {
  readonly endtime: number;
  readonly exitstatus: string;
}

/** undefined = the text is not a UPID. */
export function taskFromUpid(upid: string, end?: TaskEnd): Task | undefined {
  const parsed = parseUpid(upid);
  if (parsed === undefined) return undefined;
  const { user, ...rest } = parsed;
  return { upid, ...rest, authid: user, ...end };
}

export const EXIT_OK = "OK";
/** PVE's text for a task whose end nobody recorded. */
export const EXIT_UNEXPECTED = "unexpected status";
/** PVE's text for a task that was stopped. */
export const EXIT_INTERRUPTED = "received interrupt";

export type TaskStatusType = "ok" | "warning" | "error" | "unknown";

export function statusTypeOf(exitstatus: string | undefined): TaskStatusType {
  if (exitstatus === undefined || exitstatus === "" || exitstatus === EXIT_UNEXPECTED) return "unknown";
  if (exitstatus === EXIT_OK) return "ok";
  return /^WARNINGS: \d+$/.test(exitstatus) ? "warning" : "error";
}

/** Splits "joe@pve!ci" as task lists show it. */
export function splitAuthid(authid: string): { readonly user: string; readonly tokenid?: string } {
  const { userid: user, tokenid } = actorOf(authid);
  return { user, ...given({ tokenid }) };
}

/** A token sees the tasks of that token; a user sees those of the user and of all the user's tokens. */
export function ownsTask(authid: string, task: Pick<Task, "authid">): boolean {
  return authid === task.authid || authid === splitAuthid(task.authid).user;
}
