// Machines behind a host that is reached by SSH: a real ssh and a real sshd, both on this machine.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { Jumps } from "../../packages/talos/src/client/jumps.ts";
import { TalosMachines } from "../../packages/talos/src/client/talos-machines.ts";
import { machinesOf } from "../../packages/talos/src/cluster/machines.ts";
import { StandInClusters } from "../../packages/talos/src/testing/stand-in/cluster-etcd.ts";
import { TalosStandIn } from "../../packages/talos/src/testing/stand-in/talos-stand-in.ts";
import { testBundle } from "../../packages/talos/src/testing/test-bundle.ts";
import { testCluster } from "../../packages/talos/src/testing/test-cluster.ts";
import { skipping } from "../support/foreign-clients.ts";
import { type Sshd, sshdLacks, startSshd } from "../support/sshd.ts";

describe.skipIf(skipping("a jump by SSH", sshdLacks()))("a host before the machines", () => {
  let folder = "";
  let sshd: Sshd;
  let machine: TalosStandIn;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-jump-test-"));
    sshd = await startSshd(folder);
    machine = await TalosStandIn.start({ uuid: "u", version: "v1.13.9", clusters: new StandInClusters() });
  });

  afterAll(async () => {
    await machine?.stop();
    await sshd?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  function place(more: object = {}) {
    const { user, port, identityFile, knownHosts } = sshd;
    const jump = { host: "127.0.0.1", user, port, identityFile, knownHosts, ...more };
    const storage = { image: "local", vm: "local", efi: "local", cloudinit: "local" };
    const provider = { name: "pve", type: "qm", nodes: ["pve1"], storage, jump };
    const cluster = testCluster({ providers: [provider] });
    return { cluster, machines: machinesOf(cluster) };
  }
  const open = (more: object = {}) =>
    Jumps.open(place(more), { exec, folder, env: { HOME: folder, PATH: MINIMAL_ENV["PATH"] } });

  test("a machine answers through it, by several connections of one login", async () => {
    const jumps = await open();
    try {
      const machines = new TalosMachines(await testBundle(Date.now()), Date.now(), (name) =>
        jumps.dialOf(name),
      );
      const ask = async (): Promise<string> => {
        const client = await machines.stranger({ name: "prod-cp-1", address: machine.address }, 30_000);
        return (await client.version().finally(() => client.close())).tag;
      };
      expect(await Promise.all([ask(), ask(), ask()])).toEqual(["v1.13.9", "v1.13.9", "v1.13.9"]);
      // Members want a certificate: it goes through the same way, and is refused by the machine itself.
      await expect(
        machines
          .member({ name: "prod-cp-1", address: machine.address }, 30_000)
          .then((client) => client.version().finally(() => client.close())),
      ).rejects.toMatchObject({ code: "auth.failed" });
    } finally {
      await jumps.close();
    }
  });

  test("a machine that the host does not reach is told as silent, not as a failure of the host", async () => {
    const jumps = await open();
    try {
      const machines = new TalosMachines(await testBundle(Date.now()), Date.now(), (name) =>
        jumps.dialOf(name),
      );
      await expect(
        machines.stranger({ name: "prod-cp-1", address: "127.0.0.1:1" }, 30_000),
      ).rejects.toMatchObject({ code: "node.unavailable" });
    } finally {
      await jumps.close();
    }
  });

  test("a host with another key than the pinned one, or that does not know us, is refused at once", async () => {
    const other = join(folder, "other");
    await exec("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", other]);
    const { stdout } = await exec("ssh-keygen", ["-y", "-f", other]);
    writeFileSync(join(folder, "wrong_hosts"), `[127.0.0.1]:${sshd.port} ${stdout}`);
    writeFileSync(join(folder, "no_hosts"), "");
    for (const [more, words] of [
      [{ knownHosts: "wrong_hosts" }, /REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed/],
      [{ knownHosts: "no_hosts" }, /Host key verification failed/],
      [{ identityFile: "other" }, /Permission denied/],
    ] as const) {
      await expect(open(more)).rejects.toMatchObject({
        message: expect.stringMatching(words),
        data: { finding: "jump-refused" },
      });
    }
  });
});
