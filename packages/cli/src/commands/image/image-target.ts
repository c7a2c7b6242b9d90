// Which node and storage an image command is about.
import type { GpveClient } from "@gpve/client/client.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { OptionSpec } from "../../command.ts";
import type { Input } from "../../input.ts";

export const nodeOption: OptionSpec = {
  flags: "--node <name>",
  about: "on which node (the first online one)",
};
export const storageOption: OptionSpec = { flags: "--storage <name>", about: "in which storage (local)" };

export async function chosenNode(client: GpveClient, input: Input): Promise<string> {
  const given = input.text("node");
  if (given !== undefined) return given;
  const online = (await client.pve.list("/nodes")).filter((row) => row["status"] === "online");
  const names = online.map((row) => String(row["node"])).toSorted();
  if (names[0] !== undefined) return names[0];
  throw new AppError("node.unavailable", "no node is online");
}

export function storageQuery(input: Input): string {
  const storage = input.text("storage");
  return storage === undefined ? "" : `?storage=${encodeURIComponent(storage)}`;
}
