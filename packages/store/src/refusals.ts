// Why a store refuses a request, so precisely that etcd's own words can be found for it: clients match on those.
import { given } from "@gpve/contracts/given.ts";
import { AppError, type ErrorCode } from "@gpve/contracts/errors.ts";

const codes = {
  emptyKey: "request.invalid",
  valueProvided: "request.invalid",
  leaseProvided: "request.invalid",
  duplicateKey: "request.invalid",
  futureRevision: "request.invalid",
  leaseTtl: "request.invalid",
  tooManyOps: "request.too_large",
  tooLarge: "request.too_large",
  compacted: "store.compacted",
  noKey: "object.not_found",
  noLease: "object.not_found",
  leaseExists: "object.exists",
  noSpace: "store.full",
  tooMany: "resource.busy",
} as const satisfies Record<string, ErrorCode>;

export type Refusal = keyof typeof codes;

export function refusal(
  reason: Refusal,
  message: string,
  options: { readonly cause?: unknown; readonly data?: Readonly<Record<string, unknown>> } = {},
): AppError {
  const { cause, data } = options;
  return new AppError(codes[reason], message, {
    data: { ...data, refusal: reason },
    ...given({ cause }),
  });
}

export function refusalOf(err: AppError): Refusal | undefined {
  const reason = err.data["refusal"];
  return typeof reason === "string" && Object.hasOwn(codes, reason) ? (reason as Refusal) : undefined;
}

export function compacted(wanted: number, compactRevision: number): AppError {
  return refusal(
    "compacted",
    `revision ${wanted} has been compacted away; the oldest still readable is ${compactRevision}`,
    { data: { compactRevision } },
  );
}

export function futureRevision(wanted: number, revision: number): AppError {
  return refusal("futureRevision", `revision ${wanted} is in the future; the store is at ${revision}`);
}

export function noLease(id: bigint): AppError {
  return refusal("noLease", `lease ${id} does not exist or has expired`);
}

/** etcd's longest lease. */
const MAX_TTL_SECONDS = 9_000_000_000;

export function requireTtl(ttlSeconds: number): void {
  if (!Number.isInteger(ttlSeconds) || ttlSeconds < 1 || ttlSeconds > MAX_TTL_SECONDS) {
    throw refusal("leaseTtl", `a lease of ${ttlSeconds} seconds is not possible`);
  }
}
