// How a node fills cloud-init drives and keeps their passwords.
import type { StoragePlugin } from "../../storage/plugin.ts";
import type { VmValues } from "../config/vm-config.ts";

export interface CloudinitDrives {
  /** Makes the drive from the configuration and puts it into a volume that is there. */
  write(storage: StoragePlugin, volname: string, vmid: number, values: VmValues): Promise<void>;
  readonly hashPassword: (password: string) => string;
}
