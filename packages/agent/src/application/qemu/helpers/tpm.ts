// A VM's TPM: swtpm as a process of its own, with its state on the volume of tpmstate0. QEMU connects to it.
import { refused } from "@gpve/domain/request/failures.ts";
import { requireHostFile } from "@gpve/domain/storage/block-node.ts";
import { TPM_BOUNDS } from "@gpve/domain/vm/running/vm-bounds.ts";
import type { GuestFile, GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import { requireDrive } from "@gpve/domain/vm/config/drive.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import { type HelperPorts, stopHelper, untilListening } from "./listening-helper.ts";

export interface TpmPorts extends HelperPorts {
  readonly storages: GuestStorages;
}

const PROGRAM = "/usr/bin/swtpm";
const SOCKET_PATIENCE_MS = 5_000;

export function tpmProcessId(vmid: number): string {
  return `${vmid}-tpm`;
}

export interface RunningTpm {
  readonly process: GuestProcess;
  /** What QEMU must be able to open. */
  readonly socket: GuestFile;
}

/** undefined = the VM has none. */
export async function startTpm(
  host: TpmPorts,
  vmid: number,
  values: VmValues,
  signal: AbortSignal,
): Promise<RunningTpm | undefined> {
  const text = values["tpmstate0"];
  if (text === undefined) return undefined;
  await stopTpm(host, vmid);
  const drive = requireDrive("tpmstate0", text);
  const { plugin, volname } = volumeOf(host, drive.file);
  await plugin.activate();
  const { format, node } = await plugin.attach(volname);
  if (format !== "raw") throw refused("tpmstate0: the state of a TPM must be a raw volume");
  const filename = requireHostFile(node, "the state of a TPM");
  const id = tpmProcessId(vmid);
  const path = `${host.processes.placeOf(id).ioFolder}/swtpm`;
  const process = await host.processes.start(
    {
      id,
      label: `TPM of VM ${vmid}`,
      program: PROGRAM,
      args: [
        "socket",
        ...(drive.version === "v2.0" ? ["--tpm2"] : []),
        "--tpmstate",
        `backend-uri=file://${filename},mode=0600`,
        "--ctrl",
        `type=unixio,path=${path},mode=0600`,
        // It ends when QEMU hangs up.
        "--terminate",
      ],
      bounds: TPM_BOUNDS,
      files: [{ path: filename, access: "rw", owned: true }],
      note: { vmid },
    },
    { signal },
  );
  await untilListening(host, process, path, SOCKET_PATIENCE_MS);
  return { process, socket: { path, access: "rw", owned: true } };
}

export async function stopTpm(host: TpmPorts, vmid: number): Promise<void> {
  await stopHelper(host, tpmProcessId(vmid));
}
