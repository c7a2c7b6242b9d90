// PVE's methods about what else a host knows of itself: services, logs, traffic of guests, packages.
import { given } from "@gpve/contracts/given.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import { PveReply, type PveHandlers } from "@gpve/domain/request/handler.ts";

type Row = Readonly<Record<string, unknown>>;

export interface HostStateDeps {
  readonly services: { list(): Promise<readonly (Row & { readonly service: string })[]> };
  readonly log: {
    lines(
      query: { readonly since?: string; readonly until?: string; readonly service?: string },
      onLine: (line: string) => void,
      signal?: AbortSignal,
    ): Promise<void>;
    entries(
      query: {
        readonly since?: number;
        readonly until?: number;
        readonly lastEntries?: number;
        readonly after?: string;
        readonly before?: string;
      },
      signal?: AbortSignal,
    ): Promise<readonly { readonly cursor: string; readonly line: string }[]>;
  };
  /** Running guests; traffic of their cards by the card's device on the host, "tap100i0". */
  readonly guests: () => readonly Pick<GuestRuntime, "vmid" | "nics">[];
  readonly packages: {
    versions(): Promise<readonly Row[]>;
    upgrades(): Promise<readonly Row[]>;
    /** Where they come from. */
    sources(): unknown;
  };
}

const DEFAULT_LINES = 50;

export function createHostStateHandlers(deps: HostStateDeps): PveHandlers {
  return {
    "GET /nodes/{node}/services": () => deps.services.list(),
    "GET /nodes/{node}/services/{service}/state": async ({ service }) =>
      (await deps.services.list()).find((row) => row.service === service),
    "GET /nodes/{node}/syslog": async ({ start = 0, limit, since, until, service }, ctx) => {
      const wanted = limit === undefined || limit === 0 ? DEFAULT_LINES : limit;
      const rows: { n: number; t: string }[] = [];
      let total = 0;
      const onLine = (line: string): void => {
        total++;
        if (total > start && rows.length < wanted) rows.push({ n: total, t: line });
      };
      const query = {
        ...given({ since, until, service }),
      };
      await deps.log.lines(query, onLine, ctx.signal);
      // PVE's log viewer never gets an empty list.
      if (total === 0) return new PveReply({ data: [{ n: 1, t: "no content" }], total: 1 });
      return new PveReply({ data: rows, total });
    },
    "GET /nodes/{node}/journal": async ({ since, until, lastentries, startcursor, endcursor }, ctx) => {
      const entries = await deps.log.entries(
        {
          ...given({ since, until }),
          ...(lastentries === undefined || lastentries === 0 ? {} : { lastEntries: lastentries }),
          ...given({ after: startcursor, before: endcursor }),
        },
        ctx.signal,
      );
      // The first and the last line say where to go on reading; without news that is where the reader was.
      const first = entries[0]?.cursor ?? startcursor ?? endcursor;
      const last = entries.at(-1)?.cursor ?? startcursor ?? endcursor;
      if (first === undefined || last === undefined) return [];
      return [first, ...entries.map(({ line }) => line), last];
    },
    // Figures are texts here, as PVE reads them from the kernel.
    "GET /nodes/{node}/netstat": () =>
      deps.guests().flatMap(({ vmid, nics = {} }) =>
        Object.entries(nics).map(([tap, { netin, netout }]) => ({
          vmid: String(vmid),
          dev: `net${tap.slice(tap.lastIndexOf("i") + 1)}`,
          in: String(netin),
          out: String(netout),
        })),
      ),
    "GET /nodes/{node}/apt/repositories": () => deps.packages.sources(),
    "GET /nodes/{node}/apt/versions": () => deps.packages.versions(),
    "GET /nodes/{node}/apt/update": () => deps.packages.upgrades(),
  };
}
