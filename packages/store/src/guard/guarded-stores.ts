// One store as each of its peers sees it. A peer has one budget, however often it comes.
import type { Clock } from "@gpve/kit/clock.ts";
import type { Store } from "../port.ts";
import { GuardedStore, type PeerRules } from "./guarded-store.ts";
import { PeerBudget, type PeerBudgetDeps } from "./peer-budget.ts";

export interface GuardedStoresDeps extends Pick<PeerBudgetDeps, "limits"> {
  readonly store: Store;
  readonly clock: Clock;
  /** What one may see and change; `own` = prefixes that only it writes. */
  readonly rulesOf: (peer: string) => Omit<PeerRules, "budget"> & Pick<PeerBudgetDeps, "own">;
}

export class GuardedStores {
  readonly #deps: GuardedStoresDeps;
  readonly #budgets = new Map<string, PeerBudget>();

  constructor(deps: GuardedStoresDeps) {
    this.#deps = deps;
  }

  of(peer: string): GuardedStore {
    const { rulesOf, ...deps } = this.#deps;
    const rules = rulesOf(peer);
    const { own, leases } = rules;
    const budget = this.#budgets.get(peer) ?? new PeerBudget({ ...deps, peer: `node ${peer}`, own, leases });
    this.#budgets.set(peer, budget);
    return new GuardedStore(deps.store, { ...rules, budget });
  }
}
