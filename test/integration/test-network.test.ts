// The test kit's own promises: a cut cable is silent, and nothing is left behind, not even after kill -9.
import { existsSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec } from "@gpve/kit/exec.ts";
import { startChild } from "@gpve/kit/testing/child.ts";
import { sweepTestClusters } from "@gpve/kit/testing/cluster/test-cluster.ts";
import { createTestNetwork, networkProblem } from "@gpve/kit/testing/cluster/test-network.ts";
import { describe, expect, test, vi } from "vitest";
import { nodeBinary } from "../support/gpve.ts";

const problem = await networkProblem();
if (problem !== undefined) console.warn(`SKIPPED test network: ${problem}`);

/** A closed port answers with a refusal, and only if packets get there and back. */
const KNOCK = `
const { connect } = require("node:net");
setTimeout(() => process.exit(1), 1500);
connect({ host: process.argv[1], port: 1 }).on("error", (err) => process.exit(err.code === "ECONNREFUSED" ? 0 : 1));
`;
const reaches = (from: readonly string[], to: string): Promise<boolean> =>
  exec("env", [...from, nodeBinary, "-e", KNOCK, to]).then(
    () => true,
    () => false,
  );
const left = async (id: string): Promise<string[]> => {
  const { stdout } = await exec("ip", ["netns", "list"]);
  return stdout.split("\n").filter((line) => line.startsWith(`gpvet-${id}`));
};

describe("the test network", () => {
  test.skipIf(problem !== undefined)(
    "connects machines until one is cut off, and leaves nothing behind",
    async () => {
      const network = await createTestNetwork();
      try {
        const a = await network.addMachine("a");
        const b = await network.addMachine("b");
        expect(await reaches(a.enter, b.address)).toBe(true);
        expect(await reaches(b.enter, network.hostAddress)).toBe(true);
        await b.cutOff();
        expect(await reaches(a.enter, b.address)).toBe(false);
        await b.heal();
        expect(await reaches(a.enter, b.address)).toBe(true);
      } finally {
        await network.close();
      }
      expect(await left(network.id)).toEqual([]);
    },
  );

  test.skipIf(problem !== undefined)("what a killed test left is swept by the next one", async () => {
    const dead = startChild("/bin/true", []);
    await dead.exited;
    const namespace = `gpvet-${dead.pid}x0-sw`;
    const folder = join(tmpdir(), `gpve-cluster-${dead.pid}-left`);
    mkdirSync(folder);
    await exec("ip", ["netns", "add", namespace]);
    const orphan = startChild("ip", ["netns", "exec", namespace, "sleep", "600"]);
    // On a busy machine it may not have entered yet, and the sweep would come too early for it.
    await vi.waitFor(
      async () =>
        expect((await exec("ip", ["netns", "pids", namespace])).stdout.trim()).toBe(String(orphan.pid)),
      { timeout: 30_000 },
    );
    await sweepTestClusters();
    expect(await left(`${dead.pid}x0`)).toEqual([]);
    expect(existsSync(folder)).toBe(false);
    expect(await orphan.exited).toBe("SIGKILL");
  });
});
