// Failures in PVE's words: parameter by parameter with the usage, a status where PVE has one, else the plain text.
import type { AppError } from "@gpve/contracts/errors.ts";

export const FAILED = 255;
/** Perl's `die` leaves the last error of a system call: of a VM that does not exist, ENOENT. */
const NO_SUCH_FILE = 2;

export function failureText(err: AppError, usage: string | undefined): string {
  const { complaint, isUsage, next } = err.data;
  const before = typeof complaint === "string" ? [complaint] : [];
  const message = err.message.trimEnd();
  const status = err.pveStatus;
  const isException = err.errors !== undefined || isUsage === true;
  const coded = status !== undefined && (isException || status !== 500) ? `${status} ${message}` : message;
  const parameters = Object.entries(err.errors ?? {})
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, text]) => `${name}: ${text.trimEnd()}`);
  const after = isException && usage !== undefined ? [usage] : [];
  const advice = typeof next === "string" && status === undefined ? [next] : [];
  return [...before, coded, ...parameters, ...after, ...advice].join("\n");
}

export function failureCode(err: AppError): number {
  return /^Configuration file '.*' does not exist/.test(err.message) ? NO_SUCH_FILE : FAILED;
}
