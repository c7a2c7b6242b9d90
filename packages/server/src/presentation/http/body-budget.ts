// How many bytes of request bodies are held while they come in. Strangers share one part and users another, so that no
// number of strangers keeps users out; within each, one address or one user has so much. When a part is used up, whoever
// holds most of it loses its oldest body: a newcomer with little never pays for somebody with much.

export interface Share {
  readonly inAll: number;
  readonly each: number;
}

export interface BodyBudgetLimits {
  readonly strangers: Share;
  readonly users: Share;
}

/** Whose body it is: a stranger by address, a user by name. */
export interface BodyOwner {
  readonly kind: keyof BodyBudgetLimits;
  readonly name: string;
}

export interface HeldBody {
  /** Holds so many bytes more; false = there is no room for them. */
  hold(bytes: number): boolean;
  release(): void;
}

const MiB = 1024 * 1024;
/** 64 logins of the largest size for one address, 32 changes of the largest size for one user. */
export const BODY_BUDGET: BodyBudgetLimits = {
  strangers: { inAll: 32 * MiB, each: 4 * MiB },
  users: { inAll: 64 * MiB, each: 16 * MiB },
};

interface Body {
  bytes: number;
  /** Makes room. */
  readonly end: () => void;
}

interface Holder {
  bytes: number;
  /** In the order they began. */
  readonly bodies: Set<Body>;
}

interface Part {
  readonly share: Share;
  bytes: number;
  readonly holders: Map<string, Holder>;
}

export class BodyBudget {
  readonly #parts: Readonly<Record<BodyOwner["kind"], Part>>;

  constructor({ strangers, users }: BodyBudgetLimits) {
    const part = (share: Share): Part => ({ share, bytes: 0, holders: new Map() });
    this.#parts = { strangers: part(strangers), users: part(users) };
  }

  /** `drop` is called when this body must make room for another. */
  begin({ kind, name }: BodyOwner, drop: () => void): HeldBody {
    const part = this.#parts[kind];
    const body: Body = {
      bytes: 0,
      end: () => {
        release();
        drop();
      },
    };
    const release = (): void => {
      const holder = part.holders.get(name);
      if (holder?.bodies.delete(body) !== true) return;
      holder.bytes -= body.bytes;
      part.bytes -= body.bytes;
      if (holder.bodies.size === 0) part.holders.delete(name);
    };
    const hold = (bytes: number): boolean => {
      const holder = part.holders.get(name) ?? { bytes: 0, bodies: new Set() };
      if (holder.bytes + bytes > part.share.each) return false;
      part.holders.set(name, holder);
      holder.bodies.add(body);
      body.bytes += bytes;
      holder.bytes += bytes;
      part.bytes += bytes;
      while (part.bytes > part.share.inAll) {
        const [oldest] = heaviest(part).bodies;
        if (oldest === undefined || oldest === body) return false;
        oldest.end();
      }
      return true;
    };
    return { hold, release };
  }

  /** Bytes held of that kind. */
  held(kind: BodyOwner["kind"]): number {
    return this.#parts[kind].bytes;
  }
}

function heaviest({ holders }: Part): Holder {
  let most: Holder = { bytes: 0, bodies: new Set() };
  for (const holder of holders.values()) if (holder.bytes > most.bytes) most = holder;
  return most;
}
