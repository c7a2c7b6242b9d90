// Calls that nobody asked for in a request: work of the system itself, decided under its own name.
import { noAccess } from "@gpve/domain/access/access-view.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import type { Asking } from "./call-agent.ts";

export function asSystem(work: Required<Pick<Asking, "work" | "requestId" | "signal">>): Asking {
  return { ...work, actor: { userid: ROOT_USER, authid: ROOT_USER }, access: noAccess, clientAddress: "" };
}
