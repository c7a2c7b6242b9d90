import type { Store } from "@gpve/store/port.ts";

/**
 * Who keeps this node's lease: a process of its own, which `ensure` starts where it does not run; or we ourselves, where
 * no other node could ever take a guest over.
 */
export type FenceSetting = { readonly ensure: () => void } | { readonly alone: Store };

export interface FenceParts {
  /** With which supervisors end guests in time; undefined = nobody would take them over. */
  readonly guardFile: string | undefined;
  readonly ensureFence: () => void;
  /** Where we keep the lease ourselves; undefined = the fence process does. */
  readonly ownLease: Store | undefined;
}

export function fenceParts(setting: FenceSetting, deadlineFile: string): FenceParts {
  return "alone" in setting
    ? { guardFile: undefined, ensureFence: () => undefined, ownLease: setting.alone }
    : { guardFile: deadlineFile, ensureFence: setting.ensure, ownLease: undefined };
}
