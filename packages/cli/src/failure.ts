// A failure in one line: what was tried, on what, why it failed, what to do next.
import { AppError, errorKinds, type ErrorKind, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { stepFor } from "./next-steps.ts";
import { printable } from "./output/display-width.ts";

export interface Attempt {
  /** "delete pool p1" */
  readonly doing: string;
  /** "pool delete" */
  readonly command: string;
  /** The server, when one was involved. */
  readonly origin: string | undefined;
  /** All command names, to point at the list command of the same noun. */
  readonly commands: readonly string[];
  /** A question that is worth asking first: "Did you mean memory?" */
  readonly meant?: string | undefined;
}

export const INTERRUPTED = 130;

export function exitCodeOf(err: unknown): number {
  return isAppError(err) ? errorKinds[err.kind].exit : errorKinds.internal.exit;
}

export function failureLine(err: unknown, attempt: Attempt): string {
  const where = attempt.origin === undefined ? "" : ` on ${attempt.origin}`;
  const why = sentence(reason(err));
  const tail = [attempt.meant, nextStep(err, attempt)].flatMap((text) =>
    text === undefined ? [] : ` ${text}`,
  );
  return printable(`gpvectl: cannot ${doingOf(err, attempt)}${where}: ${why}${tail.join("")}`);
}

/** What failed may be a part of what was tried. */
function doingOf(err: unknown, attempt: Attempt): string {
  const doing = isAppError(err) ? err.data["doing"] : undefined;
  return typeof doing === "string" ? doing : attempt.doing;
}

/** The chain of causes, one per line, for --debug. */
export function causeLines(err: unknown): readonly string[] {
  const lines: string[] = [];
  let current: unknown = err;
  for (let depth = 0; current !== undefined && depth < 10; depth += 1) {
    const name =
      current instanceof AppError ? current.code : current instanceof Error ? current.name : "cause";
    lines.push(printable(`  ${depth === 0 ? "error" : "caused by"} ${name}: ${messageOf(current)}`));
    if (current instanceof AppError && Object.keys(current.data).length > 0) {
      lines.push(printable(`    data ${JSON.stringify(current.data)}`));
    }
    if (depth === 0 && current instanceof Error && current.stack !== undefined) {
      const frames = current.stack.split("\n").filter((frame) => /^\s+at /.test(frame));
      lines.push(...frames.slice(0, 6).map((frame) => `    ${frame.trim()}`));
    }
    current = current instanceof Error ? current.cause : undefined;
  }
  return lines;
}

function reason(err: unknown): string {
  const message = messageOf(err).trim().replaceAll("\n", "; ");
  if (!isAppError(err) || err.errors === undefined) return message;
  // PVE joins what is wrong with one parameter by a backslash and an n.
  const details = Object.entries(err.errors)
    .map(([name, text]) => [name, text.trim().replaceAll(String.raw`\n`, "; ")] as const)
    // Said once is enough.
    .filter(
      ([name, text]) =>
        !message.includes(`${name} ${text}`) &&
        !message.startsWith(`${name}: `) &&
        !message.endsWith(`: ${text}`),
    )
    .map(([name, text]) => `${name}: ${text}`);
  return details.length === 0 ? message : `${message.replace(/[.:]$/, "")} (${details.join("; ")})`;
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function nextStep(err: unknown, attempt: Attempt): string | undefined {
  if (!isAppError(err)) return "Run it again with --debug and report what it shows.";
  const given = err.data["next"];
  if (typeof given === "string") return given;
  const parameters = Object.entries(err.errors ?? {}).map(([name, text]) => `${name}: ${text}`);
  const [, vm] = /\bVM ([\w.-]*\w)/.exec(doingOf(err, attempt)) ?? [];
  const told = stepFor([messageOf(err), ...parameters], vm);
  if (told !== undefined) return told;
  const upid = err.data["upid"];
  if (err.code === "operation.failed" && typeof upid === "string")
    return `Its log: gpvectl task follow ${upid}`;
  if (err.data["untrusted"] === true) {
    return "If you know this certificate, run: gpvectl login URL --fingerprint SHA256.";
  }
  // What is missing may be of another kind than what was asked for.
  const [, noun] = /^(storage|pool|node|role|group) '/.exec(messageOf(err)) ?? [];
  const list = noun === undefined ? undefined : `${noun} list`;
  if (err.kind === "notFound" && list !== undefined && attempt.commands.includes(list))
    return `See what there is: gpvectl ${list}.`;
  if (attempt.command.startsWith("talos ") && ofServer.has(err.kind)) {
    // With a finding its fix was told already.
    if (err.data["finding"] !== undefined) return undefined;
    return "See what stands in the way: gpvectl talos preflight.";
  }
  // A server has said so: it is not the one that cannot be reached.
  if (err.code === "node.unavailable" && typeof err.data["status"] === "number")
    return "See which nodes answer: gpvectl node list.";
  // What it is in the way of has been said, and mostly what to do: to do the same again is not it.
  if (err.kind === "conflict" && /[:;] /.test(messageOf(err))) return undefined;
  return NEXT[err.kind](attempt);
}

/** Their next steps are about a gpve server; what a deployed cluster has to do with may be another. */
const ofServer: ReadonlySet<ErrorKind> = new Set([
  "unauthenticated",
  "forbidden",
  "busy",
  "unsupported",
  "unavailable",
]);

const help = (attempt: Attempt): string => `See: gpvectl ${attempt.command} --help.`;

const NEXT: Readonly<Record<ErrorKind, (attempt: Attempt) => string | undefined>> = {
  invalid: help,
  unauthenticated: () => "Log in again: gpvectl login.",
  forbidden: () => "Ask an administrator for the privilege named, or see: gpvectl user permissions.",
  notFound: (attempt) => {
    const noun = attempt.command.split(" ")[0] ?? "";
    const list = `${noun} list`;
    return attempt.commands.includes(list) ? `See what there is: gpvectl ${list}.` : help(attempt);
  },
  exists: () => "Choose another name, or change the one that exists.",
  conflict: () => "Read it again and repeat the change.",
  busy: () => "Wait for the running task and try again: gpvectl task list --running.",
  noCapacity: () => "Free some space or capacity and try again.",
  unsupported: () => "See what this server can do: gpvectl api coverage.",
  unavailable: () => "Check that the server runs (./gpve status) and that address and network are right.",
  timeout: () => "Try again, or allow more time with --timeout.",
  internal: () => "More detail: add --debug.",
};
