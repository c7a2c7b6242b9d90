// Waits for a new cluster, and tells what happens meanwhile.
import type { V1Object } from "@gpve/client/object.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli } from "../../command.ts";
import { printable } from "../../output/display-width.ts";
import { ClusterWork } from "./cluster-work.ts";
import { vcCollection, type VcName, vcWords } from "./find-vc.ts";

const SILENCE_MS = 120_000;
const POLL_MS = 300;
const FIRST_PHASES = ["Pending", "Provisioning", "Initializing"];

/** Tells every phase that it comes to, and what its node does meanwhile; resolves when it runs. */
export async function untilRunning(cli: Cli, named: VcName): Promise<V1Object> {
  const { v1 } = await cli.client();
  const began = cli.io.clock.now();
  const work = new ClusterWork(cli, named);
  const tell = (text: string): void => {
    const seconds = ((cli.io.clock.now() - began) / 1000).toFixed(1);
    cli.out.note(`  ${seconds.padStart(5)} s  ${printable(text)}`);
  };
  let told = "";
  let heardAt = began;
  for (;;) {
    const vc = await v1.get(vcCollection(named.tenant), named.name, { signal: cli.signal });
    const status = vc.status ?? {};
    const phase = String(status["phase"]);
    const isWorking = FIRST_PHASES.includes(phase);
    for (const line of await work.news(status["node"], !isWorking)) tell(`  ${line}`);
    if (phase !== told) tell(phase);
    told = phase;
    if (phase === "Running") return vc;
    // A node that is silent for a moment still works on it.
    if (phase !== "Unknown") heardAt = cli.io.clock.now();
    const isSilent = phase === "Unknown" && cli.io.clock.now() - heardAt < SILENCE_MS;
    if (!isWorking && !isSilent) throw new AppError("internal.error", whyNot(named, phase, status));
    await cli.io.clock.sleep(POLL_MS, cli.signal);
  }
}

function whyNot(named: VcName, phase: string, status: Readonly<Record<string, unknown>>): string {
  const conditions = Array.isArray(status["conditions"]) ? (status["conditions"] as unknown[]) : [];
  const [ready] = conditions as { readonly message?: string }[];
  const words = vcWords(named);
  return `virtual cluster ${named.name} is ${phase}: ${ready?.message ?? "its node says no more"}. Look: gpvectl vc logs ${words}; again: gpvectl vc retry ${words}; away: gpvectl vc delete ${words}`;
}
