// Which virtual cluster a command is about.
import type { V1Object } from "@gpve/client/object.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { ArgumentSpec, Cli, OptionSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import { splitName, tenantPath } from "../object/named-object.ts";

export const vcArgument: ArgumentSpec = { name: "<name>", about: "the virtual cluster, or TENANT/NAME" };
export const tenantOption: OptionSpec = {
  flags: "--tenant <tenant>",
  about: "the tenant it belongs to (the only one that has it)",
};

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

export function vcCollection(tenant: string | undefined): string {
  return tenant === undefined ? "vclusters" : tenantPath(tenant, "vclusters");
}

/** Where the cluster is below /api/v1. */
export function vcPath(input: Input, more = ""): string {
  const { name, tenant } = vcNamed(input);
  return `${vcCollection(tenant)}/${encodeURIComponent(name)}${more}`;
}

const SILENCE_MS = 120_000;
const POLL_MS = 300;
const FIRST_PHASES = ["Pending", "Provisioning", "Initializing"];

/** Tells every phase that it comes to; resolves when it runs. */
export async function untilRunning(cli: Cli, named: VcName): Promise<V1Object> {
  const { v1 } = await cli.client();
  const began = cli.io.clock.now();
  let told = "";
  let heardAt = began;
  for (;;) {
    const vc = await v1.get(vcCollection(named.tenant), named.name, { signal: cli.signal });
    const status = vc.status ?? {};
    const phase = String(status["phase"]);
    if (phase !== told) {
      const seconds = ((cli.io.clock.now() - began) / 1000).toFixed(1);
      cli.out.note(`  ${seconds} s  ${phase}`);
      told = phase;
    }
    if (phase === "Running") return vc;
    // A node that is silent for a moment still works on it.
    if (phase !== "Unknown") heardAt = cli.io.clock.now();
    const isSilent = phase === "Unknown" && cli.io.clock.now() - heardAt < SILENCE_MS;
    if (!FIRST_PHASES.includes(phase) && !isSilent)
      throw new AppError("internal.error", whyNot(named, phase, status));
    await cli.io.clock.sleep(POLL_MS, cli.signal);
  }
}

function whyNot(named: VcName, phase: string, status: Readonly<Record<string, unknown>>): string {
  const conditions = Array.isArray(status["conditions"]) ? (status["conditions"] as unknown[]) : [];
  const [ready] = conditions as { readonly message?: string }[];
  const words = vcWords(named);
  return `virtual cluster ${named.name} is ${phase}: ${ready?.message ?? "its node says no more"}. Look: gpvectl vc logs ${words}; again: gpvectl vc retry ${words}; away: gpvectl vc delete ${words}`;
}
