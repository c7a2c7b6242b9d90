// The table of kinds: what the cluster knows of each. Nobody asks what type a guest is to decide what to do: the row
// says it. What a node does with a kind is the table beside its composition (agent/src/node-kinds.ts).
import { lxcKind } from "../container/lxc-kind.ts";
import { qemuKind } from "../vm/qemu-kind.ts";
import type { GuestKind } from "./guest-kind.ts";

export const guestKinds = {
  qemu: qemuKind,
  lxc: lxcKind,
} as const satisfies Readonly<Record<string, GuestKind>>;

export type GuestType = keyof typeof guestKinds;
