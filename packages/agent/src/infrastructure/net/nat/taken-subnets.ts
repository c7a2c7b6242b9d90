import type { Exec } from "@gpve/kit/exec.ts";
import { listInterfaces } from "../interfaces.ts";

/** Addresses and routes of this host, which a network of ours must stay clear of. */
export async function takenSubnets(exec: Exec): Promise<string[]> {
  const interfaces = await listInterfaces(exec);
  const { stdout } = await exec("ip", ["-j", "route", "show", "table", "all"]);
  const routes = JSON.parse(stdout === "" ? "[]" : stdout) as readonly { readonly dst?: string }[];
  return [...interfaces.flatMap(({ addresses }) => addresses), ...routes.map(({ dst }) => dst ?? "")];
}
