// Civil time of a zone, from the runtime's own zone data. Wall times are counted as if they were UTC, in seconds.

/** Seconds that the zone's clocks are ahead of UTC at a moment (seconds since 1970). */
export type ZoneOffset = (epoch: number) => number;

export const UTC_OFFSET: ZoneOffset = () => 0;

/** A zone the runtime does not know counts as UTC. */
export function zoneOffset(timeZone: string): ZoneOffset {
  if (timeZone === "UTC") return UTC_OFFSET;
  const format = formatOf(timeZone);
  if (format === undefined) return UTC_OFFSET;
  return (epoch) => {
    const parts = Object.fromEntries(
      format.formatToParts(epoch * 1000).map(({ type, value }) => [type, Number(value)]),
    ) as Record<"year" | "month" | "day" | "hour" | "minute" | "second", number>;
    const wall = Date.UTC(
      parts.year,
      parts.month - 1,
      parts.day,
      parts.hour % 24,
      parts.minute,
      parts.second,
    );
    return wall / 1000 - Math.floor(epoch);
  };
}

/** The moments a wall time stands for, earliest first: two when clocks were set back, none in the hour they skip. */
export function momentsOf(wall: number, offset: ZoneOffset): readonly number[] {
  const [before, after] = [offset(wall - 86_400), offset(wall + 86_400)];
  const moments = [wall - before, wall - after].filter((moment) => moment + offset(moment) === wall);
  return [...new Set(moments)].toSorted((a, b) => a - b);
}

/** A wall time in a skipped hour is read as if clocks had not been set forward yet. */
export function existingWall(wall: number, offset: ZoneOffset): number {
  if (momentsOf(wall, offset).length > 0) return wall;
  const moment = wall - offset(wall - 86_400);
  return moment + offset(moment);
}

function formatOf(timeZone: string): Intl.DateTimeFormat | undefined {
  try {
    return new Intl.DateTimeFormat("en-US", {
      timeZone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  } catch {
    return undefined;
  }
}
