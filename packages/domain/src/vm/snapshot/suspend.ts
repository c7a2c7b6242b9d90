// What suspending to disk does to the configuration. The saved RAM is named in it, so that it is freed with the VM.
//
//   (running) --beginSuspend--> lock suspending --finishSuspend--> lock suspended --endSuspend--> (running)
import { conflict } from "../../request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { checkLock, hasLock } from "../../guest/guest-lock.ts";
import { checkStateSavable, type SavedVmState, type StartFromState } from "./vm-snapshot-rules.ts";
import type { VmConfig } from "../config/vm-config.ts";
import { without } from "../../guest/guest-config.ts";

const STATE_KEYS = ["lock", "vmstate", "runningmachine", "runningcpu", "running-nets-host-mtu"] as const;

/** Devices of the host keep state that nobody can save. */
export function checkSuspendable(config: VmConfig): void {
  if (Object.keys(config.values).some((key) => /^hostpci\d+$/.test(key))) {
    throw new AppError(
      "feature.unsupported",
      "cannot suspend VM to disk due to passed-through PCI device(s), which lack the possibility to save/restore their internal state",
      { pveStatus: 500 },
    );
  }
}

export function beginSuspend(config: VmConfig, state: SavedVmState, skipLock: boolean): VmConfig {
  if (hasLock(config, "backup"))
    throw new AppError("resource.busy", "cannot suspend to disk during backup", { pveStatus: 500 });
  if (!skipLock) checkLock(config);
  checkStateSavable(config.values);
  return { ...config, values: { ...config.values, ...state, lock: "suspending" } };
}

export function finishSuspend(config: VmConfig): VmConfig {
  if (!hasLock(config, "suspending")) throw conflict("lock changed unexpectedly");
  return { ...config, values: { ...config.values, lock: "suspended" } };
}

/** The guest goes on, or never stood still: nothing of the suspension is left. */
export function endSuspend(config: VmConfig): VmConfig {
  return { ...config, values: without(config.values, ...STATE_KEYS) };
}

/** How a suspended VM must be started; undefined = it is not suspended. */
export function suspendedState(config: VmConfig): StartFromState | undefined {
  const { vmstate, runningmachine, runningcpu, "running-nets-host-mtu": netsHostMtu } = config.values;
  if (vmstate === undefined) return undefined;
  return {
    vmstate,
    machine: runningmachine ?? "",
    ...given({ cpu: runningcpu, netsHostMtu }),
  };
}
