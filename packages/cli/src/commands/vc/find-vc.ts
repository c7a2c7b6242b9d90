// Which virtual cluster a command is about.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { ArgumentSpec, OptionSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import { splitName, tenantPath } from "../object/named-object.ts";

export const vcArgument: ArgumentSpec = { name: "<name>", about: "the virtual cluster, or TENANT/NAME" };
export const tenantOption: OptionSpec = {
  flags: "--tenant <tenant>",
  about: "the tenant it belongs to (the only one that has it)",
};
/** Of commands that ask nothing: who says it to those that want it need not know which do. */
export const yesOption: OptionSpec = { flags: "--yes", about: "do it without asking, as it does anyway" };

export interface VcName {
  readonly name: string;
  /** Absent: that of the only one with the name. */
  readonly tenant?: string;
}

export function vcNamed(input: Input): VcName {
  const { name, tenant } = splitName(input.arg("name"));
  const said = input.text("tenant");
  if (said !== undefined && tenant !== undefined && said !== tenant)
    throw new AppError(
      "request.invalid",
      `${input.arg("name")} is of tenant ${tenant}, and --tenant says ${said}: say one`,
    );
  return { name, ...given({ tenant: said ?? tenant }) };
}

/** As it is said to another command. */
export function vcWords({ name, tenant }: VcName): string {
  return tenant === undefined ? name : `${name} --tenant ${tenant}`;
}

/** As `get` takes it. */
export function vcObject({ name, tenant }: VcName): string {
  return tenant === undefined ? name : `${tenant}/${name}`;
}

export function vcCollection(tenant: string | undefined): string {
  return tenant === undefined ? "vclusters" : tenantPath(tenant, "vclusters");
}

/** Where the cluster is below /api/v1. */
export function vcPath(input: Input, more = ""): string {
  const { name, tenant } = vcNamed(input);
  return `${vcCollection(tenant)}/${encodeURIComponent(name)}${more}`;
}
