// What texts and names say of guests, from the table of kinds.
import { AppError } from "@gpve/contracts/errors.ts";
import { guestKinds, type GuestType } from "./guest-kinds.ts";

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
