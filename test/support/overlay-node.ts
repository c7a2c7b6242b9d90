// Run inside the network namespace of a node: makes the node's part of a cluster on several nodes, tries who can be reached from
// its worker, and takes it away again when it is told to.
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { ClusterNetworks } from "@gpve/agent/infrastructure/vcluster/network/cluster-network.ts";
import type { ClusterOverlay } from "@gpve/domain/vcluster/overlay.ts";
import { exec } from "@gpve/kit/exec.ts";
import { type Child, startChild } from "@gpve/kit/testing/child.ts";

export interface OverlayNodeAsk {
  /** Where it tells and is told. */
  readonly folder: string;
  readonly instanceId: string;
  readonly clusters: readonly { readonly network: number; readonly overlay: ClusterOverlay }[];
}

export interface OverlayNodeAnswer {
  /** By cluster: what the pod on the other node said first, and how much it sent. */
  readonly heard: readonly { readonly words: string; readonly bytes: number }[];
  readonly mtu: number;
  readonly left: readonly string[];
}

const { folder, instanceId, clusters } = JSON.parse(process.argv[2] ?? "{}") as OverlayNodeAsk;
const networks = new ClusterNetworks(exec, instanceId, join(folder, `run-${instanceId}`));
const at = clusters[0]?.overlay.at ?? 0;
const pods = (slot: number): string => `10.244.${slot}`;
const inside = (network: number, ...argv: readonly string[]) =>
  exec("ip", ["netns", "exec", networks.worker(network, at).namespace, ...argv], {
    okCodes: [0, 1, 2, 7, 28],
  });
const until = async (name: string): Promise<void> => {
  while (!existsSync(join(folder, name))) await setTimeout(50);
};

const servers: Child[] = [];
for (const { network, overlay } of clusters) {
  await networks.ensure(network, { overlay });
  await networks.ensureWorker(network, at, overlay);
  // As CNI has it: a bridge in the worker, with the pods' first address.
  await inside(network, "ip", "link", "add", "name", "cni0", "type", "bridge");
  await inside(network, "ip", "address", "add", `${pods(at)}.1/24`, "dev", "cni0");
  await inside(network, "ip", "link", "set", "dev", "cni0", "up");
  const via = networks.worker(network, 1 - at).address;
  await networks.route(network, at, { network: `${pods(1 - at)}.0/24`, via });
  const program = `require("http").createServer((q, r) => r.end("${network} on ${at}\\n" + "x".repeat(300000))).listen(8080, "${pods(at)}.1")`;
  const { namespace } = networks.worker(network, at);
  servers.push(startChild("/usr/sbin/ip", ["netns", "exec", namespace, process.execPath, "-e", program]));
}
writeFileSync(join(folder, `ready-${at}`), "");
await until(`ready-${1 - at}`);

const mtu = networks.mtu(clusters[0]?.network ?? 0);
const heard: { words: string; bytes: number }[] = [];
for (const { network } of clusters) {
  const url = `http://${pods(1 - at)}.1:8080/`;
  const { stdout } = await inside(
    network,
    "curl",
    "-s",
    "-m",
    "10",
    "--retry",
    "5",
    "--retry-connrefused",
    url,
  );
  heard.push({ words: stdout.slice(0, stdout.indexOf("\n")), bytes: stdout.length });
}
writeFileSync(join(folder, `tried-${at}`), "");
await until(`tried-${1 - at}`);
for (const server of servers) await server.stop();
for (const { network } of clusters) {
  await networks.removeWorker(network, at);
  await networks.remove(network);
}
const { stdout: links } = await exec("ip", ["-o", "link", "show"]);
const left = links.split("\n").filter((line) => /\bvc[bxpw]\d/.test(line));
const answer: OverlayNodeAnswer = { heard, mtu, left };
writeFileSync(join(folder, `answer-${at}.json`), JSON.stringify(answer));
