// The network as this machine sees it. Only who answers for an address at the link layer is surely there: through a
// gateway, firewalls and proxies answer in the place of others.
import { readFile } from "node:fs/promises";
import { connect, isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { type FetchText, releasedVersions } from "../image/check-updates.ts";
import { askTime, type AskTime } from "./ask-time.ts";
import type { Probes, Sign } from "./probes.ts";

/** Talos and Kubernetes first, then what most machines have. */
const PORTS = [50_000, 6443, 22, 443] as const;
const TIMEOUT_MS = 1_500;
const FACTORY_TIMEOUT_MS = 10_000;
const COMPLETE = 0x2;

export type TryPort = (address: string, port: number) => Promise<"open" | "refused" | undefined>;

export interface ProbeDeps {
  readonly tryPort: TryPort;
  /** The kernel's neighbours, as /proc/net/arp shows them. */
  readonly neighbours: () => Promise<string>;
  /** Addresses of this machine. */
  readonly own: () => readonly string[];
  readonly fetch: FetchText;
  readonly askTime: AskTime;
}

export class NetworkProbes implements Probes {
  readonly #deps: ProbeDeps;

  constructor(deps: ProbeDeps = realNetwork) {
    this.#deps = deps;
  }

  async address(address: string): Promise<Sign | undefined> {
    const { tryPort, neighbours, own } = this.#deps;
    if (isIP(address) === 0) return undefined;
    if (own().includes(address)) return { how: "it is this machine's own", mac: undefined, isSure: true };
    const tried = await Promise.all(
      PORTS.map(async (port) => ({ port, answer: await tryPort(address, port) })),
    );
    const open = tried.find(({ answer }) => answer === "open");
    const refused = tried.find(({ answer }) => answer === "refused");
    const neighbour = neighbourOf(await neighbours(), address);
    if (neighbour === "nobody") return undefined;
    if (neighbour !== undefined) {
      const word = open === undefined ? "refuses connections" : "is open";
      const port = (open ?? refused)?.port;
      const how = port === undefined ? "it is known in this network" : `port ${port} ${word}`;
      return { how, mac: neighbour, isSure: port !== undefined };
    }
    return open === undefined
      ? undefined
      : { how: `port ${open.port} is open, through a gateway`, mac: undefined, isSure: false };
  }

  versions(factory: string): Promise<readonly string[]> {
    return releasedVersions(factory.replace(/\/+$/, ""), this.#deps.fetch, FACTORY_TIMEOUT_MS);
  }

  timeServer(server: string): Promise<string | undefined> {
    return this.#deps.askTime(server);
  }
}

/** undefined: the address is not in a network of this machine. "nobody": it is, and was asked for in vain. */
function neighbourOf(table: string, address: string): string | undefined {
  const [, , flags, mac] =
    table
      .split("\n")
      .map((line) => line.split(/\s+/))
      .find(([found]) => found === address) ?? [];
  if (flags === undefined || mac === undefined) return undefined;
  return (Number(flags) & COMPLETE) === 0 ? "nobody" : mac.toUpperCase();
}

const tryPort: TryPort = (address, port) =>
  new Promise((resolve) => {
    const socket = connect({ host: address, port });
    const end = (answer: "open" | "refused" | undefined): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(TIMEOUT_MS, () => end(undefined));
    socket.once("connect", () => end("open"));
    socket.once("error", (err: NodeJS.ErrnoException) =>
      end(err.code === "ECONNREFUSED" ? "refused" : undefined),
    );
  });

export const realNetwork: ProbeDeps = {
  tryPort,
  // Elsewhere than on Linux there is none, and nobody is surely there.
  neighbours: () => readFile("/proc/net/arp", "utf8").catch(() => ""),
  own: () => Object.values(networkInterfaces()).flatMap((each) => (each ?? []).map(({ address }) => address)),
  fetch,
  askTime,
};
