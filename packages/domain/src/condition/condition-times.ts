// When each condition of an object came to its status. What is so is read from what runs; since when is kept, because
// nobody who begins later could tell.
export type ConditionStatus = "True" | "False" | "Unknown";

export interface StatusSince {
  readonly status: ConditionStatus;
  /** Milliseconds since the epoch. */
  readonly since: number;
}

/** By type of condition. */
export type ConditionTimes = Readonly<Record<string, StatusSince>>;

/** Written by servers, by the name of the object: "nodes/n1". Agents do not see it. */
export const conditionTimesCollection = { prefix: "/gpve/condition-times/", decode: decodeTimes };

export function nodeConditionsId(node: string): string {
  return `nodes/${node}`;
}

/** A status that is known already keeps its time, whoever sees it again. */
export function settleTimes(known: ConditionTimes, seen: ConditionTimes): ConditionTimes {
  const news = Object.entries(seen).filter(([type, { status }]) => known[type]?.status !== status);
  return news.length === 0 ? known : { ...known, ...Object.fromEntries(news) };
}

function decodeTimes(json: unknown): ConditionTimes {
  const entries = Object.entries((json ?? {}) as Readonly<Record<string, Partial<StatusSince>>>);
  return Object.fromEntries(
    entries.flatMap(([type, { status, since }]) =>
      isStatus(status) && typeof since === "number" ? [[type, { status, since }]] : [],
    ),
  );
}

function isStatus(status: unknown): status is ConditionStatus {
  return status === "True" || status === "False" || status === "Unknown";
}
