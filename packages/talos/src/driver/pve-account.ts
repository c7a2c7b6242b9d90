// An account of the least privilege by the PVE API.
import { pveRows } from "@gpve/client/pve-client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { PlatformAccount } from "./driver.ts";
import type { PlatformCalls } from "./platform-calls.ts";

export async function makePveAccount(
  calls: PlatformCalls,
  { user, token, role, privileges, paths }: PlatformAccount,
): Promise<{ readonly id: string; readonly secret: string }> {
  const privs = (await known(calls, privileges)).join(",");
  if (await has(calls, "/access/roles", "roleid", role)) {
    await calls.work("PUT", `/access/roles/${role}`, { privs });
  } else await calls.work("POST", "/access/roles", { roleid: role, privs });
  if (!(await has(calls, "/access/users", "userid", user)))
    await calls.work("POST", "/access/users", { userid: user, comment: "of a Talos cluster" });
  const place = `/access/users/${user}/token`;
  // Its secret was told once, to whoever made it.
  if (await has(calls, place, "tokenid", token)) await calls.work("DELETE", `${place}/${token}`);
  const made = await calls.make(`${place}/${token}`, { privsep: 1 });
  const id = `${user}!${token}`;
  // What a token may do is what both it and its user may.
  for (const path of paths) {
    await calls.work("PUT", "/access/acl", { path, roles: role, users: user });
    await calls.work("PUT", "/access/acl", { path, roles: role, tokens: id });
  }
  const secret = isObject(made) ? made["value"] : undefined;
  if (typeof secret === "string") return { id, secret };
  throw new AppError("internal.error", `the platform made ${id} without telling its secret`);
}

async function has(calls: PlatformCalls, path: string, key: string, value: string): Promise<boolean> {
  return pveRows(await calls.read(path), `GET ${path}`).some((row) => row[key] === value);
}

/** Proxmox VE 8 has one privilege for all that is asked of a guest's agent and monitor. */
async function known(calls: PlatformCalls, privileges: readonly string[]): Promise<readonly string[]> {
  const answer = await calls.read("/version");
  const major = Number.parseInt(isObject(answer) ? String(answer["version"]) : "", 10);
  return privileges.map((name) => (major < 9 && name.startsWith("VM.GuestAgent.") ? "VM.Monitor" : name));
}
