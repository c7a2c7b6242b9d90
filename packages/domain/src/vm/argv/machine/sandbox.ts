/** No new processes, no new privileges, no scheduler games: a guest that breaks out of QEMU finds little. */
export const QEMU_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
