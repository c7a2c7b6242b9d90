// The table of kinds on a node: how each is composed. What the cluster knows of them is domain/guest/guest-kinds.ts; a
// kind has one line in each.
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";
import type { ComposeKind } from "./compose-kind.ts";
import { composeVms } from "./compose-vm.ts";

export const nodeKinds = {
  qemu: composeVms,
} as const satisfies Readonly<Partial<Record<GuestType, ComposeKind>>>;
