// Waits for a new cluster, and tells what happens meanwhile.
import type { V1Object } from "@gpve/client/object.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli } from "../../command.ts";
import { printable } from "../../output/display-width.ts";
import { ClusterWork } from "./cluster-work.ts";
import { vcCollection, type VcName, vcWords } from "./find-vc.ts";

const SILENCE_MS = 120_000;
/** Until then a node has said what it has to bring first, if it has to bring anything. */
const TOLD_MS = 5_000;
const POLL_MS = 300;
const FIRST_PHASES = ["Pending", "Provisioning", "Initializing"];
const BEFORE_START = FIRST_PHASES.slice(0, 2);

/** Tells every phase that it comes to, and what its node does meanwhile; resolves when it runs. */
export async function untilRunning(cli: Cli, named: VcName): Promise<V1Object> {
  const began = cli.io.clock.now();
  const work = new ClusterWork(cli, named);
  const tell = teller(cli);
  let told = "";
  let heardAt = began;
  for (;;) {
    const { vc, phase, status } = await look(cli, named);
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

/** For who does not wait for the cluster: what its node has to bring first and how long that takes, or that it needs nothing. */
export async function untilTold(cli: Cli, named: VcName): Promise<void> {
  const { clock } = cli.io;
  const until = clock.now() + TOLD_MS;
  const work = new ClusterWork(cli, named);
  const tell = teller(cli);
  while (clock.now() < until) {
    const { phase, status } = await look(cli, named);
    const isBefore = BEFORE_START.includes(phase);
    const news = await work.news(status["node"], !isBefore);
    for (const line of news) tell(line);
    if (news.length > 0 || !isBefore) return;
    await clock.sleep(POLL_MS, cli.signal);
  }
}

/** Whether it is on its way to run for the first time. */
export async function isComing(cli: Cli, named: VcName): Promise<boolean> {
  return FIRST_PHASES.includes((await look(cli, named)).phase);
}

async function look(
  cli: Cli,
  { tenant, name }: VcName,
): Promise<{
  readonly vc: V1Object;
  readonly phase: string;
  readonly status: Readonly<Record<string, unknown>>;
}> {
  const { v1 } = await cli.client();
  const vc = await v1.get(vcCollection(tenant), name, { signal: cli.signal });
  const status = vc.status ?? {};
  return { vc, phase: String(status["phase"]), status };
}

function teller(cli: Cli): (text: string) => void {
  const began = cli.io.clock.now();
  return (text) => {
    const seconds = ((cli.io.clock.now() - began) / 1000).toFixed(1);
    cli.out.note(`  ${seconds.padStart(5)} s  ${printable(text)}`);
  };
}

function whyNot(named: VcName, phase: string, status: Readonly<Record<string, unknown>>): string {
  const conditions = Array.isArray(status["conditions"]) ? (status["conditions"] as unknown[]) : [];
  const [ready] = conditions as { readonly message?: string }[];
  const words = vcWords(named);
  return `virtual cluster ${named.name} is ${phase}: ${ready?.message ?? "its node says no more"}. Look: gpvectl vc logs ${words}; again: gpvectl vc retry ${words}; away: gpvectl vc delete ${words} --yes`;
}
