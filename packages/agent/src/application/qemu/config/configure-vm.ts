// Changing a configuration as a task. What it allocates and no configuration names is nobody's: an undo frees it.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { notSet, updateText, type ConfigUpdate } from "@gpve/domain/vm/change/config-update.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import { listVolumes, ownedVolumes } from "./free-volumes.ts";
import { isNewDisk, storagesFor } from "./new-disks.ts";
import { undoNewDisks } from "./undo-new-disks.ts";
import { updateVmConfig, type UpdateConfigPorts } from "./update-config.ts";

interface ConfigureArgs {
  readonly vmid: number;
  readonly update: ConfigUpdate;
}

interface ConfigureState {
  /** Volumes that were there before; an undo leaves them alone. */
  existing?: readonly string[];
  /** The configuration was changed: to do so again would make the disks again. */
  isChanged?: true;
}

export function configureVmOperation(
  host: UpdateConfigPorts,
): OperationDefinition<ConfigureArgs, ConfigureState> {
  const newDisks = ({ set }: ConfigUpdate): Record<string, string> =>
    Object.fromEntries(Object.entries(set).filter(([key, text]) => isNewDisk(key, text)));
  return {
    type: "qmconfig",
    initialState: () => ({}),
    steps: [
      {
        name: "configure",
        run: async ({ args: { vmid, update }, state, checkpoint, signal, log, progress }) => {
          if (state.isChanged === true) return;
          log(`update VM ${vmid}: ${updateText(update)}`);
          for (const key of notSet(host.configs.get(vmid), update))
            log(`cannot delete '${key}' - not set in current configuration!`);
          try {
            state.existing = await listVolumes(host, vmid, storagesFor(newDisks(update)));
            await checkpoint();
            await updateVmConfig(host, vmid, update, { signal, log, progress, checkpoint });
            state.isChanged = true;
          } catch (err) {
            throw asTaskError(err);
          }
        },
        undo: async ({ args: { vmid, update }, state, log }) => {
          if (state.existing === undefined || !host.configs.has(vmid)) return;
          const named = ownedVolumes(host, vmid, host.configs.get(vmid));
          await undoNewDisks(host, vmid, newDisks(update), [...state.existing, ...named], log);
        },
      },
    ],
  };
}

/** A task has one line for what went wrong, and names the parameters in it. */
function asTaskError(err: unknown): unknown {
  if (!isAppError(err) || err.errors === undefined) return err;
  const each = Object.entries(err.errors).map(([key, text]) => `${key}: ${text.trim()}`);
  return new AppError(err.code, ["400 Parameter verification failed.", ...each].join(" "), { cause: err });
}
