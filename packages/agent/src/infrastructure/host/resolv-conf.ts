import { realpathSync, writeFileSync } from "node:fs";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { DnsSettings, HostDns } from "@gpve/domain/node/host-ports.ts";

export function parseResolvConf(text: string): DnsSettings {
  const servers: string[] = [];
  let search: string | undefined;
  for (const line of text.split("\n")) {
    const [word = "", ...rest] = line
      .replace(/[#;].*$/, "")
      .trim()
      .split(/\s+/);
    // The last search line wins, as in the resolver; "domain" is its old form.
    if ((word === "search" || word === "domain") && rest[0] !== undefined) search = rest[0];
    if (word === "nameserver" && rest[0] !== undefined && servers.length < 3) servers.push(rest[0]);
  }
  const [dns1, dns2, dns3] = servers;
  return {
    ...(search === undefined ? {} : { search }),
    ...(dns1 === undefined ? {} : { dns1 }),
    ...(dns2 === undefined ? {} : { dns2 }),
    ...(dns3 === undefined ? {} : { dns3 }),
  };
}

/** The new file: our lines first, then whatever else the old one had (options, comments). */
export function formatResolvConf(settings: DnsSettings, old: string): string {
  const servers = [settings.dns1, settings.dns2, settings.dns3].filter((server) => server !== undefined);
  const kept = old
    .split("\n")
    .filter((line) => line !== "" && !/^\s*(search|domain|nameserver)\b/.test(line));
  const lines = [
    ...(settings.search === undefined ? [] : [`search ${settings.search}`]),
    ...servers.map((server) => `nameserver ${server}`),
    ...kept,
  ];
  return lines.map((line) => `${line}\n`).join("");
}

export class ResolvConf implements HostDns {
  readonly #path: string;

  constructor(path = "/etc/resolv.conf") {
    this.#path = path;
  }

  async read(): Promise<DnsSettings> {
    return parseResolvConf(readTextFile(this.#path) ?? "");
  }

  async write(settings: DnsSettings): Promise<void> {
    const content = formatResolvConf(settings, readTextFile(this.#path) ?? "");
    const target = followed(this.#path);
    try {
      replace(target, content);
    } catch (cause) {
      throw new AppError("internal.error", `cannot write ${target}: ${messageOf(cause)}`, { cause });
    }
  }
}

/** A link stays a link: what it points to is replaced. */
function followed(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function replace(path: string, content: string): void {
  try {
    writeFileAtomic(path, content, 0o644);
  } catch (err) {
    // A file that is itself a mount (containers) can only be written in place.
    if ((err as NodeJS.ErrnoException).code !== "EBUSY") throw err;
    writeFileSync(path, content);
  }
}
