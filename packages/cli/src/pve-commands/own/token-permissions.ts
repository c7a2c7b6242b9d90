import type { OptionValues, PveSession } from "../command-entry.ts";

/** `pveum user token permissions`: a token is a user with a name behind it. */
export async function tokenPermissions(session: PveSession, values: OptionValues): Promise<unknown> {
  const { pve } = await session.client();
  const userid = `${String(values["userid"])}!${String(values["tokenid"])}`;
  const path = values["path"] === undefined ? {} : { path: String(values["path"]) };
  return (await pve.call("GET", "/access/permissions", { userid, ...path })).data;
}
