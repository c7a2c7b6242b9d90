// What the /api2 face needs from the rest of the server. compose.ts provides it.
import type { UploadPlace } from "@gpve/domain/node/upload.ts";
import type { AccessView, Actor, RequestLogger } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { AuditedCall } from "../../../application/audit/record-audit.ts";
import type { Authenticated, Credentials } from "../../../application/access/authenticator.ts";
import type { ReadyReads } from "./ready-reads.ts";
import type { PlaceGuest } from "../../../application/scheduler/place-guest.ts";
import type { Decide, NodeCalls } from "../../../application/node/call-agent.ts";

export interface UploadTo {
  readonly node: string;
  readonly storage: string;
  /** Whose it is. */
  readonly actor: Actor | undefined;
  readonly access: AccessView;
}

export interface Uploads {
  /** Throws when the node cannot be given files from here, or has no room for so many bytes. */
  open(to: UploadTo, length: number): Promise<UploadPlace>;
}

export interface PveApiDeps {
  /** Throws AppError auth.* with PVE's texts. */
  readonly authenticate: (credentials: Credentials) => Promise<Authenticated>;
  readonly accessOf: (actor: Actor | undefined) => AccessView;
  /** Throws AppError access.denied. Runs before parameters are validated. */
  readonly decide: Decide;
  readonly handlers: PveHandlers;
  readonly calls: NodeCalls;
  /** For guests whose node is not named. */
  readonly placement: Pick<PlaceGuest, "run">;
  readonly localNode: string;
  /** Whether it ever joined, be it away now or not. */
  readonly knowsNode: (node: string) => boolean;
  readonly uploads: Uploads;
  /** Resolves when memory shows everything committed before. */
  readonly fresh: (signal: AbortSignal) => Promise<void>;
  /** How old reads may be while the store is away; undefined = they are not. */
  readonly ageSeconds: () => number | undefined;
  /** Answers given again from memory; undefined = each read asks the store first, or is traced. */
  readonly ready: () => ReadyReads | undefined;
  readonly audit: (call: AuditedCall | undefined) => Promise<void>;
  readonly observe: (route: string, method: string, status: number, seconds: number) => void;
  readonly trace: <T>(
    name: string,
    attributes: Readonly<Record<string, string>>,
    run: (traceparent: string | undefined) => Promise<T>,
  ) => Promise<T>;
  readonly log: RequestLogger;
  readonly newRequestId: () => string;
  readonly delay: (ms: number) => Promise<void>;
}
