// The table of kinds. Nobody asks what type a guest is to decide what to do: the row says it.
import { AppError } from "@gpve/contracts/errors.ts";
import { lxcKind } from "../container/lxc-kind.ts";
import { qemuKind } from "../vm/qemu-kind.ts";
import type { GuestKind } from "./guest-kind.ts";

export const guestKinds = { qemu: qemuKind, lxc: lxcKind } as const satisfies Readonly<
  Record<string, GuestKind>
>;

export type GuestType = keyof typeof guestKinds;

export const guestTypes = Object.keys(guestKinds) as readonly GuestType[];

export function isGuestType(text: unknown): text is GuestType {
  return typeof text === "string" && Object.hasOwn(guestKinds, text);
}

/** "VM 100". */
export function guestLabel({ type, vmid }: { readonly type: GuestType; readonly vmid: number }): string {
  return `${guestKinds[type].noun} ${vmid}`;
}

/** PVE's text for a guest that is not where somebody looks for it. */
export function noSuchGuest(type: GuestType, node: string, vmid: number): AppError {
  const file = `nodes/${node}/${guestKinds[type].configFolder}/${vmid}.conf`;
  return new AppError("object.not_found", `Configuration file '${file}' does not exist`);
}
