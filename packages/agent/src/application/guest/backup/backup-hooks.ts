import { refused } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import type { BackupHooks } from "@gpve/domain/backup/backup-ports.ts";
import type { BackupArgs } from "./backup-request.ts";
import type { BackupTarget } from "./prune-old-backups.ts";
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";

/** What a hook script is told about the guest in hand. */
export interface HookGuest {
  readonly type: GuestType;
  readonly vmid: number;
  readonly mode: string;
  readonly name: string;
  readonly target: string;
  readonly logFile: string;
}

export type RunHook = (phase: string, guest?: HookGuest) => Promise<void>;

/** The script that root may name with a job: told every phase, and able to end it. */
export function hookRunner(
  tools: BackupHooks,
  args: Pick<BackupArgs, "script">,
  target: BackupTarget,
  log: (line: string) => void,
): RunHook {
  const { script } = args;
  if (script === undefined) return async () => undefined;
  return async (phase, guest) => {
    if (!(await tools.isExecutable(script))) throw refused(`The hook script '${script}' is not executable.`);
    const words = guest === undefined ? [phase] : [phase, guest.mode, String(guest.vmid)];
    await tools.runHook(
      script,
      words,
      {
        ...given({ STOREID: target.storage }),
        DUMPDIR: target.folder,
        ...(guest === undefined
          ? {}
          : { VMTYPE: guest.type, HOSTNAME: guest.name, TARGET: guest.target, LOGFILE: guest.logFile }),
      },
      (line) => log(`INFO: ${line}`),
    );
  };
}
