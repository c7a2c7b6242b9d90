// In which order guests start and stop: by `startup` order, those without one last, then by VMID.

export interface StartableGuest {
  readonly vmid: number;
  readonly onboot: boolean;
  readonly startup?: string;
}

export interface StartStep {
  readonly vmid: number;
  /** Seconds to wait after it has been started. */
  readonly up: number;
  /** Seconds it has to shut down. */
  readonly down: number | undefined;
}

interface StartupOrder {
  readonly order?: number;
  /** Seconds to wait before the next guest. */
  readonly up?: number;
  readonly down?: number;
}

/** The key `startup`. */
export function readStartup(text: string): StartupOrder {
  const result: { order?: number; up?: number; down?: number } = {};
  for (const part of text.split(",")) {
    const [, key, value] = /^\s*(?:(order|up|down)=)?(\d+)\s*$/.exec(part) ?? [];
    if (value !== undefined) result[(key ?? "order") as keyof typeof result] = Number(value);
  }
  return result;
}

export function startOrder(guests: readonly StartableGuest[]): StartStep[] {
  return guests
    .map(({ vmid, startup }) => ({ vmid, ...readStartup(startup ?? "") }))
    .toSorted((a, b) => byOrder(a.order, b.order) || a.vmid - b.vmid)
    .map(({ vmid, up, down }) => ({ vmid, up: up ?? 0, down }));
}

export function stopOrder(guests: readonly StartableGuest[]): StartStep[] {
  return startOrder(guests).toReversed();
}

/** Guests that stop together, in turn: those of one order do not wait for each other. */
export function stopGroups(guests: readonly StartableGuest[]): StartStep[][] {
  const orders = new Map(guests.map(({ vmid, startup }) => [vmid, readStartup(startup ?? "").order]));
  const groups: StartStep[][] = [];
  let last: number | undefined | null = null;
  for (const step of stopOrder(guests)) {
    const order = orders.get(step.vmid);
    if (order === last) groups.at(-1)?.push(step);
    else groups.push([step]);
    last = order;
  }
  return groups;
}

function byOrder(a = Number.MAX_SAFE_INTEGER, b = Number.MAX_SAFE_INTEGER): number {
  return a - b;
}
