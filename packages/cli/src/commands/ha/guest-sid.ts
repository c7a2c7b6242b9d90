// vm:ID or ct:ID of what a person means by a number or a name. HA knows guests by nothing else.
import type { GpveClient } from "@gpve/client/client.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { guestKinds } from "@gpve/domain/guest/guest-kinds.ts";
import type { ArgumentSpec } from "../../command.ts";

export const GUEST_ABOUT = "vm:ID, ct:ID, the ID alone, or its name";
export const guestArgument: ArgumentSpec = { name: "<guest>", about: GUEST_ABOUT };

type Rows = readonly Readonly<Record<string, unknown>>[];

const isWritten = (text: string): boolean => text.includes(":");

export async function sidOf(client: GpveClient, text: string): Promise<string> {
  const [sid = text] = await sidsOf(client, [text]);
  return sid;
}

export async function sidsOf(client: GpveClient, texts: readonly string[]): Promise<readonly string[]> {
  if (texts.every(isWritten)) return texts;
  const guests = await client.pve.list("/cluster/resources", { type: "vm" });
  return texts.map((text) => {
    const sid = isWritten(text) ? text : meant(guests, text);
    if (sid !== undefined) return sid;
    throw new AppError("object.not_found", `there is no guest ${text}`, {
      data: { next: "One that is gone is named in full: vm:ID or ct:ID." },
    });
  });
}

/** Also of one that is gone. Where no guest is called so, it may be a node. */
export async function sidOrNode(client: GpveClient, text: string): Promise<string> {
  if (isWritten(text)) return text;
  const sid = meant(await client.pve.list("/cluster/resources", { type: "vm" }), text);
  return sid ?? (/^\d+$/.test(text) ? `vm:${text}` : text);
}

function meant(guests: Rows, text: string): string | undefined {
  const byId = guests.filter((row) => String(row["vmid"]) === text);
  const [found, ...more] = byId.length > 0 ? byId : guests.filter((row) => row["name"] === text);
  if (more.length > 0) {
    const ids = [found, ...more].map((row) => String(row?.["vmid"])).join(", ");
    throw new AppError("request.invalid", `several guests are called ${text}: ${ids}`, {
      data: { next: "Name one by its ID." },
    });
  }
  const kind = Object.entries(guestKinds).find(([name]) => name === found?.["type"])?.[1];
  return kind === undefined ? undefined : `${kind.haType}:${String(found?.["vmid"])}`;
}
