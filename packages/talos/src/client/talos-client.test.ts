// Our client and the stand-in for a machine, on real TLS and gRPC.
import { createHash } from "node:crypto";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createTalosContext, type TalosRole } from "../access/talosconfig.ts";
import { machinesOf } from "../cluster/machines.ts";
import { writeConfig } from "../config/config-text.ts";
import { schematicIn } from "../engine/observe/look-at-image.ts";
import { machineConfig } from "../render/machine-config.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { beginRotation, nextPhase, withoutOld } from "../secrets/rotation.ts";
import { StandInClusters } from "../testing/stand-in/cluster-etcd.ts";
import { TalosStandIn } from "../testing/stand-in/talos-stand-in.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { TalosClient } from "./talos-client.ts";
import { TalosMachines } from "./talos-machines.ts";
import { openConnection, type TalosTrust } from "./talos-connection.ts";

const cluster = testCluster();
const machines = machinesOf(cluster);
let secrets: SecretsBundle;
let clusters: StandInClusters;
const opened: (TalosStandIn | TalosClient)[] = [];

beforeAll(async () => {
  secrets = await testBundle(Date.now());
});
beforeEach(() => {
  clusters = new StandInClusters();
});
afterEach(async () => {
  for (const each of opened.splice(0))
    if (each instanceof TalosClient) each.close();
    else await each.stop();
});

const uuid = "338085e1-f323-51fe-9a79-ffcfffe38931";

async function standIn(version = "v1.13.9"): Promise<TalosStandIn> {
  const made = await TalosStandIn.start({ uuid, version, clusters, authority: secrets.certs.os });
  opened.push(made);
  return made;
}

async function client(node: TalosStandIn, trust: TalosTrust): Promise<TalosClient> {
  const made = await TalosClient.open({ address: node.address, trust, timeoutMs: 5_000 });
  opened.push(made);
  return made;
}

async function member(node: TalosStandIn, ...roles: readonly TalosRole[]): Promise<TalosClient> {
  return memberOf(secrets, node, ...roles);
}

async function memberOf(
  bundle: SecretsBundle,
  node: TalosStandIn,
  ...roles: readonly TalosRole[]
): Promise<TalosClient> {
  const more = roles.length === 0 ? {} : { roles };
  const context = await createTalosContext(bundle, { endpoints: [], now: Date.now(), ...more });
  const pem = (text: string): string => Buffer.from(text, "base64").toString("utf8");
  const { ca, crt, key } = context;
  return client(node, { kind: "cluster", ca: pem(ca), crt: pem(crt), key: pem(key) });
}

function configOf(role: "controlplane" | "worker", index = 0, bundle = secrets): string {
  const machine = machines.filter((each) => each.role === role)[index];
  if (machine === undefined) throw new Error("the test's cluster has no such machine");
  return writeConfig(
    machineConfig({ cluster, secrets: bundle, machines, patches: new Map() }, machine).documents,
  );
}

/** One that has booted with its configuration. */
async function configured(
  role: "controlplane" | "worker",
  index = 0,
  version?: string,
): Promise<TalosStandIn> {
  const node = await standIn(version);
  await (await client(node, { kind: "anyone" })).apply(configOf(role, index), "auto");
  await node.settled();
  return node;
}

describe("in maintenance", () => {
  test("a machine is known by the fingerprint of its console", async () => {
    const node = await standIn();
    const right = await client(node, { kind: "fingerprint", fingerprint: node.fingerprint });
    expect(await right.version()).toEqual({ tag: "v1.13.9", platform: "nocloud" });
    const fingerprint = createHash("sha256").update("another").digest("base64");
    await expect(client(node, { kind: "fingerprint", fingerprint })).rejects.toMatchObject({
      code: "auth.failed",
      message: expect.stringContaining("another machine answers there"),
    });
  });

  test("it says which VM it is, and does nothing else for strangers", async () => {
    const node = await standIn();
    const stranger = await client(node, { kind: "anyone" });
    expect(
      await stranger.resource("hardware", "SystemInformations.hardware.talos.dev", "systeminformation"),
    ).toMatchObject({ uuid: "338085e1-f323-51fe-9a79-ffcfffe38931" });
    const status = await stranger.resources("runtime", "MachineStatuses.runtime.talos.dev");
    expect(status.get("machine")).toMatchObject({ stage: "maintenance", status: { ready: false } });
    expect(await stranger.resource("network", "HostnameStatuses.net.talos.dev", "nothing")).toBeUndefined();
    const denied = { code: "access.denied" };
    await expect(stranger.bootstrap()).rejects.toMatchObject(denied);
    await expect(stranger.reset(false)).rejects.toMatchObject(denied);
    await expect(stranger.kubeconfig()).rejects.toMatchObject(denied);
    await expect(stranger.resource("runtime", "Nothings.talos.dev", "x")).rejects.toMatchObject(denied);
    await expect(
      stranger.resource("config", "MachineConfigs.config.talos.dev", "v1alpha1"),
    ).rejects.toMatchObject(denied);
  });

  test.each([
    ["machine: [", "no YAML"],
    ["machine: { type: init }\n", "unknown machine type"],
    ["version: v1alpha1\n", "no machine section"],
    ["machine: { type: worker }\ncluster: {}\n", "machine.token is required"],
  ])("a configuration that is none is refused: %s", async (text, message) => {
    const node = await standIn();
    const stranger = await client(node, { kind: "anyone" });
    await expect(stranger.apply(text, "auto")).rejects.toMatchObject({
      code: "request.invalid",
      message: expect.stringContaining(message),
    });
    expect(node.machine.stage).toBe("maintenance");
  });

  test("a dry run changes nothing", async () => {
    const node = await standIn();
    await (await client(node, { kind: "anyone" })).apply(configOf("worker"), "auto", true);
    expect(node.machine.stage).toBe("maintenance");
  });
});

describe("configured", () => {
  test("only clients of the cluster are let in, each with its roles", async () => {
    const node = await configured("controlplane");
    const admin = await member(node);
    expect((await admin.version()).tag).toBe("v1.13.9");
    const name = machines.find(({ role }) => role === "controlplane")?.name;
    expect(await admin.resource("network", "HostnameStatuses.net.talos.dev", "hostname")).toMatchObject({
      hostname: name,
    });
    // The machine's refusal and the end of the connection come at once: either may be seen first.
    await expect((await client(node, { kind: "anyone" })).version()).rejects.toMatchObject({
      code: expect.stringMatching(/^(?:auth\.failed|node\.unavailable)$/),
    });
    const reader = await member(node, "os:reader");
    expect((await reader.version()).tag).toBe("v1.13.9");
    await expect(reader.bootstrap()).rejects.toMatchObject({ code: "access.denied" });
    const other = await testBundle(Date.now());
    const mine = secrets;
    secrets = other;
    try {
      await expect((await member(node)).version()).rejects.toMatchObject({ code: "auth.failed" });
    } finally {
      secrets = mine;
    }
  });

  test("etcd is begun once, others join it, and one that leaves is gone", async () => {
    const first = await configured("controlplane", 0);
    const admin = await member(first);
    await expect(admin.members()).rejects.toMatchObject({ code: "node.unavailable" });
    first.machine.isTimeInSync = false;
    await expect(admin.bootstrap()).rejects.toMatchObject({
      code: "resource.busy",
      message: expect.stringContaining("time is not in sync yet"),
    });
    first.machine.isTimeInSync = true;
    await admin.bootstrap();
    await expect(admin.bootstrap()).rejects.toMatchObject({ code: "object.exists" });
    expect(await admin.kubeconfig()).toContain("kind: Config");

    const second = await configured("controlplane", 1);
    const members = await admin.members();
    const names = machines.filter(({ role }) => role === "controlplane").map((machine) => machine.name);
    expect(members.map(({ hostname }) => hostname)).toEqual(names.slice(0, 2));
    expect(BigInt(members[0]?.id ?? 0)).toBeGreaterThan(2n ** 53n);
    // The guard of a machine is its own: this one has etcd's data too.
    await expect((await member(second)).bootstrap()).rejects.toMatchObject({ code: "object.exists" });
    const snapshot = await admin.etcdSnapshot();
    const hash = createHash("sha256").update(snapshot.subarray(0, -32)).digest();
    expect(snapshot.subarray(-32).equals(hash)).toBe(true);

    await (await member(second)).leaveEtcd();
    expect(await admin.members()).toHaveLength(1);
    await expect(admin.removeMember("7")).rejects.toMatchObject({ code: "object.not_found" });
    expect(clusters.etcd(secrets.cluster.id).bootstraps).toBe(1);
  });

  test("who may work on machines shuts one down, and others do not", async () => {
    const node = await configured("worker");
    await expect((await member(node, "os:reader")).shutdown()).rejects.toMatchObject({
      code: "access.denied",
    });
    await (await member(node, "os:operator")).shutdown();
    expect(node.machine.isOn).toBe(false);
  });

  test("a worker has no etcd to begin", async () => {
    const node = await configured("worker");
    await expect((await member(node)).bootstrap()).rejects.toMatchObject({
      code: "resource.busy",
      message: expect.stringContaining("control plane"),
    });
  });

  test("an upgrade counts after the next boot, and a failed installer is a failure", async () => {
    const node = await configured("worker");
    const admin = await member(node);
    const image = "factory.talos.dev/nocloud-installer/abc:v1.13.10";
    node.machine.installerExitCode = 3;
    await expect(admin.upgrade(image)).rejects.toMatchObject({
      code: "operation.failed",
      message: expect.stringContaining("exit code 3"),
    });
    node.machine.installerExitCode = 0;
    const seen: string[] = [];
    expect(await admin.upgrade(image, (text) => seen.push(text))).toBe(false);
    expect(seen).toEqual(["installing"]);
    expect((await admin.version()).tag).toBe("v1.13.9");
    const before = await admin.bootId();
    await admin.reboot();
    await node.settled();
    expect((await admin.version()).tag).toBe("v1.13.10");
    expect(await admin.bootId()).not.toBe(before);
    await expect(admin.upgrade("nowhere")).rejects.toMatchObject({ code: "object.not_found" });
  });

  test("the image's schematic is told where a factory made it", async () => {
    const node = await configured("worker");
    const admin = await member(node);
    expect(await schematicIn(admin)).toBeUndefined();
    node.machine.schematic = "ce4c98";
    expect(await schematicIn(admin)).toBe("ce4c98");
  });

  test("a machine before 1.13 is upgraded by the one call that it knows, and boots by itself", async () => {
    const node = await configured("worker", 0, "v1.12.4");
    const admin = await member(node);
    const before = await admin.bootId();
    await expect(admin.upgrade("nowhere")).rejects.toMatchObject({ code: "object.not_found" });
    expect(await admin.upgrade("factory.talos.dev/nocloud-installer/abc:v1.13.9")).toBe(true);
    await node.settled();
    expect((await admin.version()).tag).toBe("v1.13.9");
    expect(await admin.bootId()).not.toBe(before);
    const first = await configured("controlplane", 0, "v1.12.4");
    const plane = await member(first);
    await plane.bootstrap();
    await configured("controlplane", 1, "v1.12.4");
    // Its own guard, which newer ones do not have.
    await expect(plane.upgrade("factory.talos.dev/nocloud-installer/abc:v1.13.9")).rejects.toMatchObject({
      code: "resource.busy",
      message: expect.stringContaining("would lose quorum"),
    });
  });

  test("a reset machine has left etcd and waits for a configuration", async () => {
    const first = await configured("controlplane", 0);
    const admin = await member(first);
    await admin.bootstrap();
    const second = await configured("controlplane", 1);
    await (await member(second)).reset(true);
    await second.settled();
    expect(await admin.members()).toHaveLength(1);
    expect(second.machine.stage).toBe("maintenance");
    expect(await (await client(second, { kind: "anyone" })).version()).toMatchObject({ tag: "v1.13.9" });
    const third = await configured("controlplane", 2);
    await (await member(third)).reset(false);
    await third.settled();
    // Nobody told etcd: its member is still counted.
    const left = await admin.members();
    expect(left).toHaveLength(2);
    await admin.removeMember(left[1]?.id ?? "");
    expect(await admin.members()).toHaveLength(1);
  });
});

test("an address that is none, or where nobody answers, is told", async () => {
  await expect(openConnection("a:b:c", { kind: "anyone" })).rejects.toThrow("is no address of a machine");
  const trust = { kind: "fingerprint", fingerprint: "x" } as const;
  await expect(openConnection("[::1]:1", trust)).rejects.toThrow("cannot connect to the machine at ::1:1");
  const nobody = await TalosClient.open({ address: "127.0.0.1:1", trust: { kind: "anyone" } });
  await expect(nobody.version()).rejects.toMatchObject({ code: "node.unavailable" });
  nobody.close();
});

test("an authority is replaced without a boot, and clients of both are let in until the old one goes", async () => {
  const node = await configured("controlplane");
  const boot = await (await member(node)).bootId();
  const accepting = await beginRotation(secrets, { talos: true, kubernetes: false }, Date.now());
  const give = async (from: SecretsBundle, to: SecretsBundle): Promise<void> => {
    await (await memberOf(from, node)).apply(configOf("controlplane", 0, to), "no-reboot");
    await node.settled();
  };
  const isReached = async (bundle: SecretsBundle): Promise<boolean> => {
    try {
      return (await (await memberOf(bundle, node)).version()).tag === "v1.13.9";
    } catch {
      return false;
    }
  };
  const issuing = nextPhase(accepting);
  await give(accepting, accepting);
  // It shows the old one's certificate and lets clients of the new one in.
  expect(await Promise.all([secrets, issuing, withoutOld(issuing)].map(isReached))).toEqual([
    true,
    true,
    false,
  ]);
  await give(accepting, issuing);
  expect(await Promise.all([secrets, accepting, withoutOld(issuing)].map(isReached))).toEqual([
    false,
    true,
    true,
  ]);
  const removing = nextPhase(issuing);
  const machines = new TalosMachines(accepting, Date.now());
  const place = { name: "prod-cp-1", address: node.address };
  await give(issuing, removing);
  await expect((await machines.member(place, 5_000)).version()).rejects.toThrow();
  machines.use(removing);
  const last = await machines.member(place, 5_000);
  opened.push(last);
  expect(await last.bootId()).toBe(boot);
  expect(await Promise.all([secrets, accepting, removing].map(isReached))).toEqual([false, false, true]);
});
