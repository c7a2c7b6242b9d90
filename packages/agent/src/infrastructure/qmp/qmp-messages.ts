// What QEMU says on a monitor, line by line. A guest that has broken into its QEMU writes these lines itself: whatever
// they are, they end in a message or in an error of ours.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { QmpEvent } from "@gpve/domain/vm/qmp/qmp.ts";

export interface QmpGreeting {
  readonly version: { readonly major: number; readonly minor: number; readonly micro: number };
  readonly package: string;
  readonly capabilities: readonly string[];
}

export type QmpMessage =
  | { readonly kind: "event"; readonly event: QmpEvent }
  | { readonly kind: "greeting"; readonly greeting: QmpGreeting }
  | {
      readonly kind: "answer";
      readonly id: string;
      readonly value?: unknown;
      readonly error?: { readonly kind: string; readonly text: string };
    };

export function readQmpMessage(line: string): QmpMessage {
  const message = parse(line);
  if (Object.hasOwn(message, "event")) return { kind: "event", event: eventOf(message) };
  if (Object.hasOwn(message, "QMP")) return { kind: "greeting", greeting: greetingOf(message["QMP"]) };
  if (!Object.hasOwn(message, "return") && !Object.hasOwn(message, "error"))
    throw notQmp("QEMU sent a line that is not QMP", line);
  const id = message["id"];
  if (typeof id !== "string") throw notQmp("QEMU answered a command without its id", line);
  if (Object.hasOwn(message, "return")) return { kind: "answer", id, value: message["return"] };
  const error = recordOf(message["error"]);
  return {
    kind: "answer",
    id,
    error: { kind: textOf(error["class"], "GenericError"), text: textOf(error["desc"], "unknown error") },
  };
}

function parse(line: string): Record<string, unknown> {
  try {
    return recordOf(JSON.parse(line));
  } catch (cause) {
    throw notQmp("QEMU sent a line that is not JSON", line, cause);
  }
}

function eventOf(message: Record<string, unknown>): QmpEvent {
  const time = recordOf(message["timestamp"]);
  const at = numberOf(time["seconds"]) * 1_000 + Math.floor(numberOf(time["microseconds"]) / 1_000);
  return { name: textOf(message["event"], ""), data: recordOf(message["data"]), at };
}

function greetingOf(value: unknown): QmpGreeting {
  const greeting = recordOf(value);
  const version = recordOf(greeting["version"]);
  const qemu = recordOf(version["qemu"]);
  const capabilities = greeting["capabilities"];
  return {
    version: {
      major: numberOf(qemu["major"]),
      minor: numberOf(qemu["minor"]),
      micro: numberOf(qemu["micro"]),
    },
    package: textOf(version["package"], ""),
    capabilities: Array.isArray(capabilities)
      ? capabilities.filter((each): each is string => typeof each === "string")
      : [],
  };
}

function notQmp(message: string, line: string, cause?: unknown): AppError {
  return new AppError("internal.error", message, {
    data: { line: line.slice(0, 200) },
    ...given({ cause }),
  });
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

/** Converting what is no number runs what it brings along. */
function numberOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

function textOf(value: unknown, otherwise: string): string {
  return typeof value === "string" ? value : otherwise;
}
