// One error vocabulary for the whole platform. A code is stable: programs match on it.
// Add a code only when a program must tell it apart; otherwise use the kind's generic code.

export const errorKinds = {
  invalid: { http: 400, exit: 2, title: "Invalid request" },
  unauthenticated: { http: 401, exit: 3, title: "Not authenticated" },
  forbidden: { http: 403, exit: 4, title: "Permission denied" },
  notFound: { http: 404, exit: 5, title: "Not found" },
  exists: { http: 409, exit: 6, title: "Already exists" },
  conflict: { http: 409, exit: 7, title: "Conflict" },
  busy: { http: 423, exit: 8, title: "Busy" },
  noCapacity: { http: 507, exit: 9, title: "Not enough capacity" },
  unsupported: { http: 501, exit: 10, title: "Not supported" },
  unavailable: { http: 503, exit: 11, title: "Unavailable" },
  timeout: { http: 504, exit: 12, title: "Timed out" },
  internal: { http: 500, exit: 1, title: "Internal error" },
} as const satisfies Record<string, { http: number; exit: number; title: string }>;

export type ErrorKind = keyof typeof errorKinds;

/** Every code belongs to one kind. docs/reference/errors.md lists them all; a test keeps the two equal. */
export const errorCodes = {
  "request.invalid": "invalid",
  "request.too_large": "invalid",
  "auth.required": "unauthenticated",
  "auth.failed": "unauthenticated",
  "access.denied": "forbidden",
  "object.not_found": "notFound",
  "object.exists": "exists",
  "object.conflict": "conflict",
  "resource.busy": "busy",
  "capacity.exceeded": "noCapacity",
  "feature.unsupported": "unsupported",
  "node.unavailable": "unavailable",
  "store.unavailable": "unavailable",
  "store.compacted": "conflict",
  "store.full": "noCapacity",
  "operation.cancelled": "conflict",
  "operation.failed": "internal",
  "request.timeout": "timeout",
  "config.invalid": "invalid",
  "data.newer_version": "unsupported",
  "qmp.failed": "internal",
  "qmp.disconnected": "unavailable",
  "guest.start_failed": "internal",
  "guest_agent.unavailable": "unavailable",
  "guest_agent.failed": "internal",
  "internal.error": "internal",
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof errorCodes;

export interface AppErrorOptions {
  readonly cause?: unknown;
  /** Machine-readable facts for the client. Never secrets. */
  readonly data?: Readonly<Record<string, unknown>>;
  /** Per-parameter texts, as PVE's `errors` map. */
  readonly errors?: Readonly<Record<string, string>>;
  /** The HTTP status PVE gives for this failure where it differs from the kind's (mostly 500). */
  readonly pveStatus?: number;
}

/** The only error type that crosses a layer. The message says what was tried, on what, and what to do. */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly data: Readonly<Record<string, unknown>>;
  readonly errors: Readonly<Record<string, string>> | undefined;
  readonly pveStatus: number | undefined;

  constructor(code: ErrorCode, message: string, options: AppErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "AppError";
    this.code = code;
    this.data = options.data ?? {};
    this.errors = options.errors;
    this.pveStatus = options.pveStatus;
  }

  get kind(): ErrorKind {
    return errorCodes[this.code];
  }
}

export function isAppError(err: unknown, code?: ErrorCode): err is AppError {
  return err instanceof AppError && (code === undefined || err.code === code);
}

/** The text a person sees; for unknown errors their message, never a stack. */
export function messageOf(err: unknown): string {
  return err instanceof Error ? err.message : String(err);
}
