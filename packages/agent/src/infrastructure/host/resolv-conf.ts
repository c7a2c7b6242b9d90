import { given } from "@gpve/contracts/given.ts";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import type { DnsSettings, HostDns } from "@gpve/domain/node/host-ports.ts";
import { replaceHostFile } from "./host-file.ts";

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
    ...given({ search, dns1, dns2, dns3 }),
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
    replaceHostFile(this.#path, content);
  }
}
