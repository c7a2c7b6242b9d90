import type { IncomingMessage } from "node:http";
import type { Actor } from "@gpve/domain/request/context.ts";
import { clientNetwork } from "@gpve/kit/net/client-network.ts";
import { BODY_BUDGET, BodyBudget, type BodyOwner } from "./body-budget.ts";

export type BodyRead =
  | { readonly ok: true; readonly body: Buffer }
  | { readonly ok: false; readonly why: "too-large" | "aborted" | "no-room" };

/** What the sender of a body may send, and on whose account. */
export interface BodyTerms {
  readonly owner: BodyOwner;
  readonly bytes: number;
  /** A body that is not there by then is not coming, however it trickles in. */
  readonly ms: number;
}

/** For a peer that has not proven who it is a login must fit. */
const STRANGERS = { bytes: 64 * 1024, ms: 10_000 };
const USERS = { bytes: 512 * 1024, ms: 60_000 };
export const NO_ROOM_FOR_BODY =
  "too many request bodies of yours are coming in at once; try again when they are done";
const NOTHING = Buffer.alloc(0);

/** Memory is the process', and so is this. */
const budgetOfProcess = new BodyBudget(BODY_BUDGET);

export function bodyTerms(actor: Actor | undefined, clientAddress: string): BodyTerms {
  return actor === undefined
    ? { ...STRANGERS, owner: { kind: "strangers", name: clientNetwork(clientAddress) } }
    : { ...USERS, owner: { kind: "users", name: actor.userid } };
}

/** Reads a whole request body, never more than the terms say. */
export function readBody(
  req: IncomingMessage,
  { owner, bytes: limit, ms }: BodyTerms,
  budget: BodyBudget = budgetOfProcess,
): Promise<BodyRead> {
  const declared = Number(req.headers["content-length"] ?? 0);
  if (declared > limit) return Promise.resolve({ ok: false, why: "too-large" });
  if (declared === 0 && req.headers["transfer-encoding"] === undefined) {
    return Promise.resolve({ ok: true, body: NOTHING });
  }
  return new Promise((settle) => {
    const timer = setTimeout(() => {
      req.socket.destroy();
      refuse("aborted");
    }, ms);
    const chunks: Buffer[] = [];
    let size = 0;
    let settled = false;
    const resolve = (read: BodyRead): void => {
      if (settled) return;
      settled = true;
      held.release();
      clearTimeout(timer);
      settle(read);
    };
    const refuse = (why: "too-large" | "aborted" | "no-room"): void => {
      if (!settled) req.pause();
      chunks.length = 0;
      resolve({ ok: false, why });
    };
    const held = budget.begin(owner, () => refuse("no-room"));
    req.on("data", (chunk: Buffer) => {
      if (settled) return;
      size += chunk.length;
      if (size > limit) refuse("too-large");
      else if (!held.hold(chunk.length)) refuse("no-room");
      else if (!settled) chunks.push(chunk);
    });
    req.on("end", () =>
      resolve({
        ok: true,
        body: chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks),
      }),
    );
    req.on("error", () => refuse("aborted"));
    req.on("close", () => refuse("aborted"));
  });
}
