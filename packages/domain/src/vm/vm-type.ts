import type { GuestType } from "../guest/guest-kinds.ts";

/** VMs in the table of kinds, in records and in PVE's lists. */
export const VM_TYPE: GuestType & "qemu" = "qemu";
