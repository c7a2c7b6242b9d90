// Ways to a cluster whose secrets change, against a machine on real TLS.
import { afterEach, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { machinesOf } from "../cluster/machines.ts";
import { writeConfig } from "../config/config-text.ts";
import { machineConfig } from "../render/machine-config.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { beginRotation, nextPhase, withoutOld } from "../secrets/rotation.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { StandInClusters } from "../testing/stand-in/cluster-etcd.ts";
import { TalosStandIn } from "../testing/stand-in/talos-stand-in.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { ClusterWays } from "./cluster-ways.ts";
import { TalosClient } from "./talos-client.ts";

let node: TalosStandIn | undefined;
afterEach(() => node?.stop());

test("new secrets are used at once, and proven by machines and Kubernetes alike", async () => {
  const cluster = testCluster({
    controlPlane: { count: 1 },
    pools: [],
    network: { nodeCIDR: "127.0.0.0/24", gateway: "127.0.0.1" },
    endpoint: { vip: "127.0.0.9" },
  });
  const [machine] = machinesOf(cluster);
  if (machine === undefined) throw new Error("no machine");
  const secrets = await testBundle(Date.now());
  const issuing = nextPhase(await beginRotation(secrets, { talos: true, kubernetes: true }, Date.now()));
  node = await TalosStandIn.start({
    uuid: machine.uuid,
    version: "v1.13.9",
    clusters: new StandInClusters(),
  });
  const configOf = (bundle: SecretsBundle): string =>
    writeConfig(
      machineConfig({ cluster, secrets: bundle, machines: [machine], patches: new Map() }, machine).documents,
    );
  const stranger = await TalosClient.open({ address: node.address, trust: { kind: "anyone" } });
  await stranger.apply(configOf(issuing), "auto");
  stranger.close();
  await node.settled();
  const place = { cluster, machines: [{ ...machine, addresses: [node.address] }] };
  const clock = { ...instantClock(), now: () => Date.now() };
  const ways = await ClusterWays.open(place, secrets, { clock, exec, folder: "/", env: {} });
  const asked = { name: machine.name, address: node.address };
  const old = await ways.talos.member(asked, 5_000);
  await expect(old.version()).rejects.toThrow();
  old.close();
  await ways.use(issuing);
  const next = await ways.talos.member(asked, 5_000);
  expect(await next.version()).toMatchObject({ tag: "v1.13.9" });
  next.close();
  // Nobody is at the API's address: the machine alone proves nothing.
  await expect(ways.prove(withoutOld(issuing))).rejects.toMatchObject({
    message: expect.stringContaining("Kubernetes is not reached with the new authorities alone"),
    data: { finding: "rotation-unproven" },
  });
  await expect(ways.prove(secrets)).rejects.toThrow(`${machine.name} is not reached`);
  await ways.close();
});
