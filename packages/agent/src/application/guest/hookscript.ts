// A VM's hook script: run with the VMID and the phase. Only a failing pre-start stops what is going on.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { GuestValues } from "@gpve/domain/guest/guest-config.ts";
import { requireSnippet } from "./snippet-volume.ts";
import type { FileFacts } from "@gpve/domain/guest/file-facts.ts";
import type { Scripts } from "@gpve/domain/guest/scripts.ts";
import type { GuestStorages } from "./guest-storages.ts";

export interface HookscriptPorts {
  readonly files: FileFacts;
  readonly scripts: Scripts;
  readonly storages: GuestStorages;
}

export type HookPhase = "pre-start" | "post-start" | "pre-stop" | "post-stop";

export async function runHook(
  host: HookscriptPorts,
  vmid: number,
  values: GuestValues,
  phase: HookPhase,
  work: { readonly log: (line: string) => void; readonly signal?: AbortSignal },
): Promise<void> {
  const volid = values["hookscript"];
  if (volid === undefined) return;
  try {
    const { plugin, volname } = requireSnippet(host, volid);
    await plugin.activate();
    if (!host.files.exists(plugin.path(volname))) throw new Error(`script '${volid}' does not exist`);
    const path = await plugin.file(volname);
    if (!host.files.isExecutable(path)) throw new Error(`script '${volid}' is not executable`);
    const args = [String(vmid), phase];
    const code = await host.scripts.run(path, args, work);
    if (code !== 0) throw new Error(`command '${[path, ...args].join(" ")}' failed: exit code ${code}`);
  } catch (cause) {
    const text = `hookscript error for ${vmid} on ${phase}: ${messageOf(cause)}`;
    if (phase === "pre-start") throw new AppError("operation.failed", text, { cause, pveStatus: 500 });
    work.log(text);
  }
}
