// Which virtual cluster a command is about.
import type { V1Object } from "@gpve/client/object.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ArgumentSpec, Cli, OptionSpec } from "../../command.ts";
import type { Input } from "../../input.ts";

export const vcArgument: ArgumentSpec = { name: "<name>", about: "the virtual cluster" };
export const tenantOption: OptionSpec = {
  flags: "--tenant <tenant>",
  about: "the tenant it belongs to (default)",
};

/** Where the cluster is below /api/v1. */
export function vcPath(input: Input, more = ""): string {
  const name = encodeURIComponent(input.arg("name"));
  const tenant = input.text("tenant");
  const collection = tenant === undefined ? "vclusters" : `tenants/${encodeURIComponent(tenant)}/vclusters`;
  return `${collection}/${name}${more}`;
}

const SILENCE_MS = 120_000;
const POLL_MS = 300;
const FIRST_PHASES = ["Pending", "Provisioning", "Initializing"];

/** Tells every phase that it comes to; resolves when it runs. */
export async function untilRunning(cli: Cli, name: string): Promise<V1Object> {
  const { v1 } = await cli.client();
  const began = cli.io.clock.now();
  let told = "";
  let heardAt = began;
  for (;;) {
    const vc = await v1.get("vclusters", name, { signal: cli.signal });
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
      throw new AppError("internal.error", whyNot(name, phase, status));
    await cli.io.clock.sleep(POLL_MS, cli.signal);
  }
}

function whyNot(name: string, phase: string, status: Readonly<Record<string, unknown>>): string {
  const conditions = Array.isArray(status["conditions"]) ? (status["conditions"] as unknown[]) : [];
  const [ready] = conditions as { readonly message?: string }[];
  return `virtual cluster ${name} is ${phase}: ${ready?.message ?? "its node says no more"}. Look: gpvectl vc logs ${name}; again: gpvectl vc retry ${name}; away: gpvectl vc delete ${name}`;
}
