// RFC 9457 problem bodies: the one form in which /api/v1 says no.
import { given } from "../given.ts";
import { Type } from "typebox";
import type { Static } from "typebox";
import { errorCodes, errorKinds, isAppError } from "../errors.ts";
import type { ErrorCode } from "../errors.ts";

export const PROBLEM_TYPE = "application/problem+json";

export const ProblemSchema = Type.Object(
  {
    type: Type.String({ description: "urn:gpve:error:<code>" }),
    title: Type.String(),
    status: Type.Integer({ minimum: 400, maximum: 599 }),
    detail: Type.String(),
    code: Type.Enum(Object.keys(errorCodes)),
    instance: Type.Optional(Type.String({ description: "The request, as logs and audit name it." })),
    errors: Type.Optional(Type.Record(Type.String(), Type.String(), { description: "Text per field." })),
    data: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  },
  { additionalProperties: false },
);

export type Problem = Static<typeof ProblemSchema>;

/** Codes whose HTTP status says more than that of their kind. */
const statusOfCode: Partial<Record<ErrorCode, number>> = {
  "request.too_large": 413,
  "store.compacted": 410,
};

export function problemOf(err: unknown, instance?: string): Problem {
  const known = isAppError(err) ? err : undefined;
  const code: ErrorCode = known?.code ?? "internal.error";
  const kind = errorKinds[errorCodes[code]];
  return {
    type: `urn:gpve:error:${code}`,
    title: kind.title,
    status: statusOfCode[code] ?? kind.http,
    // An unknown error's text may carry anything; the log has it, the client does not.
    detail: known?.message.trimEnd() ?? "the server failed to answer this request; its log says why",
    code,
    ...given({ instance }),
    ...(known?.errors === undefined ? {} : { errors: { ...known.errors } }),
    ...(known === undefined || Object.keys(known.data).length === 0 ? {} : { data: { ...known.data } }),
  };
}
