// Whether somebody tells machines the time, asked of the network itself.
import type { Cluster } from "../cluster/cluster.ts";
import { type Finding, warning } from "./finding-report.ts";
import type { Probes } from "./probes.ts";

/** Talos takes the first that answers, so one is enough; without the time machines wait before etcd begins. */
export async function probeTimeServers(
  { network, providers }: Cluster,
  probes: Probes,
): Promise<readonly Finding[]> {
  const { ntp } = network;
  // A machine's own clock is not to be asked from here, nor is what is reached from behind a jump.
  if (ntp.length === 0 || ntp.some((server) => server.startsWith("/dev/"))) return [];
  if (providers.some(({ jump }) => jump !== undefined)) return [];
  const answers = await Promise.all(
    ntp.map(async (server) => ({ server, problem: await probes.timeServer(server) })),
  );
  if (answers.some(({ problem }) => problem === undefined)) return [];
  const evidence = answers.map(({ server, problem }) => `${server}: ${problem}`).join("; ");
  return [warning("time-source-silent", "network.ntp", evidence)];
}
