// The time zone of this host as it is now: it may be changed while the server runs.
import { readlinkSync } from "node:fs";
import { zoneOffset, type ZoneOffset } from "@gpve/domain/calendar/time-zone.ts";

export interface HostZoneSource {
  /** The TZ of the environment, which goes before the host's own. */
  readonly tz?: string | undefined;
  /** A link into the zone database. */
  readonly localtime?: string;
}

export function hostZone({ tz, localtime = "/etc/localtime" }: HostZoneSource): () => ZoneOffset {
  const known = new Map<string, ZoneOffset>();
  return () => {
    const name = tz === undefined || tz === "" ? linked(localtime) : tz.replace(/^:/, "");
    let offset = known.get(name);
    if (offset === undefined) known.set(name, (offset = zoneOffset(name)));
    return offset;
  };
}

function linked(localtime: string): string {
  try {
    return /zoneinfo\/(.+)$/.exec(readlinkSync(localtime))?.[1] ?? "UTC";
  } catch {
    return Intl.DateTimeFormat().resolvedOptions().timeZone;
  }
}
