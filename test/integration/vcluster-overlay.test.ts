// The network of virtual clusters on several nodes: two nodes as network namespaces, joined by a cable, and real VXLAN between
// them. Two clusters with the same addresses are there at once.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ClusterOverlays } from "@gpve/agent/infrastructure/vcluster/network/cluster-overlay.ts";
import { exec } from "@gpve/kit/exec.ts";
import { nodeBinary, root } from "../support/gpve.ts";
import type { OverlayNodeAnswer, OverlayNodeAsk } from "../support/overlay-node.ts";

const isRoot = process.getuid?.() === 0;
const refusal = isRoot ? await new ClusterOverlays(exec).refusal() : "this needs root";
if (refusal !== undefined) console.warn(`SKIPPED: ${refusal}`);

describe.skipIf(refusal !== undefined)("clusters on two nodes", () => {
  const mark = `gpvo${process.pid % 100_000}`;
  const names = [`${mark}a`, `${mark}b`];
  const nodes = names.map((node, at) => ({ node, address: `192.0.2.${at + 1}` }));
  let folder: string;
  const ip = (...args: readonly string[]) => exec("ip", args);

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-overlay-"));
    for (const name of names) await ip("netns", "add", name);
    const [a = "", b = ""] = names;
    await ip("-n", a, "link", "add", "name", "eth0", "type", "veth", "peer", "name", "eth0", "netns", b);
    for (const [at, name] of names.entries()) {
      await ip("-n", name, "address", "add", `${nodes[at]?.address}/24`, "dev", "eth0");
      for (const link of ["lo", "eth0"]) await ip("-n", name, "link", "set", "dev", link, "up");
    }
  });
  afterAll(async () => {
    for (const name of names) await exec("ip", ["netns", "delete", name], { okCodes: [0, 1] });
    rmSync(folder, { recursive: true, force: true });
  });

  test("pods reach each other from node to node, those of the other cluster are not there, and nothing is left", async () => {
    const run = async (at: number): Promise<OverlayNodeAnswer> => {
      const clusters = [2048, 2049].map((network) => ({ network, overlay: { nodes, at } }));
      const ask: OverlayNodeAsk = { folder, instanceId: `${process.pid % 1000}ov${at}`, clusters };
      const script = join(root, "test/support/overlay-node.ts");
      const inside = ["netns", "exec", names[at] ?? "", nodeBinary, script, JSON.stringify(ask)];
      await exec("ip", inside, { timeoutMs: 90_000, cwd: root });
      return JSON.parse(readFileSync(join(folder, `answer-${at}.json`), "utf8")) as OverlayNodeAnswer;
    };
    const answers = await Promise.all([run(0), run(1)]);
    for (const [at, { heard, mtu, left }] of answers.entries()) {
      // One address, two clusters: each hears its own, also in packets as long as they can be.
      const own = [2048, 2049].map((network) => ({ words: `${network} on ${1 - at}`, bytes: 300_010 }));
      expect({ heard, mtu, left }).toEqual({ heard: own, mtu: 1450, left: [] });
    }
  });
});
