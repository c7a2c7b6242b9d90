// What tells that a cluster is used though no tenant sends it a byte: read from what its own API server says and writes down.
// What a cluster says of itself is its tenant's to say: it keeps nobody awake but that cluster.

/** `what`: named to people. `at`: when it was so; milliseconds since the epoch. */
export interface SignOfUse {
  readonly what: string;
  readonly at: number;
}

interface Job {
  readonly metadata?: { readonly name?: unknown; readonly namespace?: unknown };
  readonly spec?: { readonly suspend?: unknown };
  readonly status?: { readonly conditions?: unknown };
}

interface AuditLine {
  readonly stageTimestamp?: unknown;
  readonly user?: { readonly username?: unknown };
}

const MOST_NAMED = 3;
const FINISHED: readonly unknown[] = ["Complete", "Failed"];
const LONG_REQUESTS = /^apiserver_longrunning_requests\{([^}\n]*)\} (\S+)$/gm;
const SESSIONS: ReadonlyMap<string, string> = new Map([
  ["exec", "exec"],
  ["attach", "attach"],
  ["portforward", "port-forward"],
  ["proxy", "proxy"],
  ["log", "logs"],
]);
const SERVICE_ACCOUNT = /^system:serviceaccount:([^:]+):([^:]+)$/;
/** Whose accounts are those of the cluster's own parts. */
const SYSTEM_NAMESPACE = "kube-system";

/** Of a list of Jobs as the API answers: those that have begun and not ended. One that cannot get on counts too. */
export function unfinishedJobs(list: unknown, now: number): SignOfUse | undefined {
  const { items } = (list ?? {}) as { readonly items?: unknown };
  const jobs = Array.isArray(items) ? (items as readonly Job[]) : [];
  const names = jobs
    .filter(({ spec, status }) => spec?.suspend !== true && !hasEnded(status?.conditions))
    .map(({ metadata }) => `${String(metadata?.namespace)}/${String(metadata?.name)}`);
  return names.length === 0
    ? undefined
    : { what: `${names.length === 1 ? "Job" : "Jobs"} ${listed(names)}`, at: now };
}

/** Of an API server's own figures: what somebody has open that is no watch. */
export function openSessions(metrics: string, now: number): SignOfUse | undefined {
  const open = new Map<string, number>();
  for (const [, labels = "", value] of metrics.matchAll(LONG_REQUESTS)) {
    const kind = SESSIONS.get(/\bsubresource="([^"]*)"/.exec(labels)?.[1] ?? "");
    if (kind !== undefined && Number(value) > 0) open.set(kind, (open.get(kind) ?? 0) + Number(value));
  }
  const words = [...open].map(([kind, many]) => `${many} ${kind}`);
  return words.length === 0 ? undefined : { what: `open sessions (${words.join(", ")})`, at: now };
}

/** Of an API server's audit log, oldest first: whether a pod with an account of the tenant's asked for something since then.
 * A watch is asked for when it is opened, which clients do anew every few minutes; leases and events are not written down. */
export function requestsOfPods(lines: readonly string[], since: number): SignOfUse | undefined {
  const accounts = new Set<string>();
  let last = 0;
  for (const line of lines.toReversed()) {
    const { stageTimestamp, user } = auditLine(line);
    const at = typeof stageTimestamp === "string" ? Date.parse(stageTimestamp) : Number.NaN;
    if (Number.isNaN(at)) continue;
    if (at < since) break;
    const [, namespace = "", name = ""] = SERVICE_ACCOUNT.exec(String(user?.username)) ?? [];
    if (name === "" || namespace === SYSTEM_NAMESPACE) continue;
    accounts.add(`${namespace}/${name}`);
    last = Math.max(last, at);
  }
  const names = [...accounts].toSorted();
  return names.length === 0 ? undefined : { what: `requests of ServiceAccount ${listed(names)}`, at: last };
}

function hasEnded(conditions: unknown): boolean {
  const all = Array.isArray(conditions)
    ? (conditions as readonly { readonly type?: unknown; readonly status?: unknown }[])
    : [];
  return all.some(({ type, status }) => FINISHED.includes(type) && status === "True");
}

function auditLine(line: string): AuditLine {
  try {
    const parsed: unknown = JSON.parse(line);
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    // One that is being written just now.
    return {};
  }
}

function listed(names: readonly string[]): string {
  const rest = names.length - MOST_NAMED;
  return `${names.slice(0, MOST_NAMED).join(", ")}${rest > 0 ? ` and ${rest} more` : ""}`;
}
