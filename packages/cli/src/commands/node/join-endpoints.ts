// By which servers a new machine joins, as it becomes part of a shell command.
import { AppError } from "@gpve/contracts/errors.ts";

const LOCAL = /^https:\/\/(127\.|localhost|\[::1\])/;

/** Throws where the text could be more than a word for the shell. */
export function plain(option: string, text: string | undefined): string | undefined {
  if (text === undefined || /^[A-Za-z0-9.:/[\]-]+$/.test(text)) return text;
  throw new AppError("request.invalid", `--${option} "${text}" has characters that cannot be part of it`);
}

/**
 * Every server that runs, the one to join through first: a node that knew only that one would be lost with it. The
 * address by which this machine asks itself leads nobody here.
 */
export function joinEndpoints(asked: string | undefined, origin: string, told: unknown): readonly string[] {
  const servers = Array.isArray(told) ? told.map((url) => plain("endpoint", String(url)) ?? "") : [];
  const first = plain("endpoint", asked) ?? (LOCAL.test(origin) ? servers[0] : undefined) ?? origin;
  return [...new Set([first.replace(/\/+$/, ""), ...servers])];
}

/** What to say of a command that no other machine can follow. */
export function unreachable(endpoint: string): string | undefined {
  return LOCAL.test(endpoint)
    ? `Other machines cannot reach ${endpoint}: name an address of this server with --endpoint.`
    : undefined;
}
