// vm:ID or ct:ID of what a person means by a number alone. Resources may be named so; rules and reasons may not.
import type { GpveClient } from "@gpve/client/client.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { guestKinds } from "@gpve/domain/guest/guest-kinds.ts";

const isNumber = (text: string): boolean => /^\d+$/.test(text);

export async function sidsOf(client: GpveClient, texts: readonly string[]): Promise<readonly string[]> {
  if (!texts.some(isNumber)) return texts;
  const guests = await client.pve.list("/cluster/resources", { type: "vm" });
  return texts.map((text) => {
    if (!isNumber(text)) return text;
    const type = guests.find((row) => String(row["vmid"]) === text)?.["type"];
    const kind = Object.entries(guestKinds).find(([name]) => name === type)?.[1];
    if (kind === undefined)
      throw new AppError("object.not_found", `there is no guest ${text}`, {
        data: { next: "One that is gone is named in full: vm:ID or ct:ID." },
      });
    return `${kind.haType}:${text}`;
  });
}
