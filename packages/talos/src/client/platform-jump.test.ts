// Lines through a platform in memory: what is behind them is a machine that listens on this one.
import { once } from "node:events";
import { connect } from "node:net";
import { afterEach, expect, test } from "vitest";
import { GpveClient } from "@gpve/client/client.ts";
import { FakeApi, FakeTransport } from "@gpve/client/testing/fake-api.ts";
import type { MessageSocket, SocketRequest } from "@gpve/client/transport.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { exec } from "@gpve/kit/exec.ts";
import { machinesOf } from "../cluster/machines.ts";
import { neededPrivileges } from "../preflight/check-privileges.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { StandInClusters } from "../testing/stand-in/cluster-etcd.ts";
import { TalosStandIn } from "../testing/stand-in/talos-stand-in.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { ClusterWays } from "./cluster-ways.ts";
import { Jumps } from "./jumps.ts";
import { LineStream } from "./line-stream.ts";

const provider = {
  name: "home",
  type: "gpve",
  endpoint: "https://gpve.example:8006",
  tokenRef: { env: "TOKEN" },
  nodes: ["n1"],
  storage: { image: "local", vm: "local", efi: "local", cloudinit: "local" },
};

function place(jump: object = { kind: "platform" }, more: object = {}) {
  const cluster = testCluster({ providers: [{ ...provider, ...more, jump }] });
  return { cluster, machines: machinesOf(cluster) };
}

let node: TalosStandIn | undefined;
afterEach(async () => {
  await node?.stop();
  node = undefined;
});

/** A platform that knows lines, and leads those it does not refuse to the port that they ask for here. */
function platform(refuse: (path: string) => AppError | undefined = () => undefined) {
  const asked: string[] = [];
  const api = new FakeApi();
  api.on("GET /api/v1", { body: { kinds: [], extensions: [{ name: "objects" }, { name: "vm-tunnel" }] } });
  const openSocket = async ({ path }: SocketRequest): Promise<MessageSocket> => {
    asked.push(path);
    const refusal = refuse(path);
    if (refusal !== undefined) throw refusal;
    const port = Number(new URL(path, "https://x").searchParams.get("port"));
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect");
    socket.on("error", () => socket.destroy());
    return {
      messages: socket,
      send: async (message) => {
        if (!socket.write(message)) await once(socket, "drain");
      },
      close: () => socket.destroy(),
    };
  };
  const transport = Object.assign(new FakeTransport(api), { openSocket });
  const credentials = { kind: "token", token: "a@pve!b=c" } as const;
  const openClient = () => Promise.resolve(new GpveClient({ transport, credentials, clock: instantClock() }));
  return { asked, api, deps: { exec, folder: "/", env: {}, openClient } };
}

test("machines are reached through the platform, each by its own guest", async () => {
  const { cluster, machines } = place();
  const { asked, deps } = platform();
  node = await TalosStandIn.start({ uuid: "u", version: "v1.13.9", clusters: new StandInClusters() });
  const clock = { ...instantClock(), now: () => Date.now() };
  const ways = await ClusterWays.open({ cluster, machines }, await testBundle(Date.now()), {
    clock,
    ...deps,
  });
  // Nobody here has this address.
  const address = `192.0.2.7:${node.port}`;
  const client = await ways.talos.stranger({ name: "prod-cp-1", address }, 20_000);
  expect(await client.version()).toMatchObject({ tag: "v1.13.9" });
  client.close();
  await ways.close();
  const vmid = machines.find(({ name }) => name === "prod-cp-1")?.vmid;
  for (const path of asked)
    expect(path).toBe(`/api/v1/virtualmachines/${vmid}/tunnel?port=${node.port}&address=192.0.2.7`);
  // Its certificate is looked at before it is spoken to.
  expect(asked.length).toBeGreaterThan(1);
});

test("the VIP is asked for at one control plane after the other", async () => {
  const { cluster, machines } = place();
  const { asked, deps } = platform(() => new AppError("access.denied", "it is not seen there"));
  const clock = { ...instantClock(), now: () => Date.now() };
  const ways = await ClusterWays.open({ cluster, machines }, await testBundle(Date.now()), {
    clock,
    ...deps,
  });
  await expect(ways.kubernetes.nodes()).rejects.toMatchObject({
    code: "node.unavailable",
    message: expect.stringContaining("it is not seen there"),
  });
  await ways.close();
  const vmids = machines.filter(({ role }) => role === "controlplane").map(({ vmid }) => vmid);
  expect(asked).toEqual(
    vmids.map((vmid) => `/api/v1/virtualmachines/${vmid}/tunnel?port=6443&address=10.0.0.9`),
  );
});

test("one that is no longer in the file is found by its name", async () => {
  const { asked, api, deps } = platform(() => new AppError("auth.failed", "no such token"));
  api.pve("GET /cluster/resources", [
    { type: "qemu", vmid: 777, name: "prod-worker-9" },
    { type: "qemu", vmid: 1, name: "other" },
  ]);
  const jumps = await Jumps.open(place(), deps);
  const stream = jumps.dialOf("prod-worker-9")?.({ host: "10.0.0.29", port: 50_000 });
  const [err] = (await once(stream ?? new LineStream(() => Promise.reject(new Error("none"))), "error")) as [
    Error,
  ];
  expect(err.message).toBe("no such token");
  expect(asked).toEqual(["/api/v1/virtualmachines/777/tunnel?port=50000&address=10.0.0.29"]);
  await jumps.close();
});

test("a platform that has no such lines is told before anything is done", async () => {
  const { api, deps } = platform();
  api.on("GET /api/v1", { body: { kinds: [], extensions: [{ name: "objects" }] } });
  await expect(Jumps.open(place(), deps)).rejects.toMatchObject({
    message: expect.stringContaining("it has no lines to guests"),
    data: { finding: "jump-refused" },
  });
});

test("what does not go together is refused in the file", () => {
  expect(() => place({ kind: "platform" }, { type: "pve-api" })).toThrow(/jump.kind is platform.*type gpve/);
  expect(() => place({ kind: "platform", host: "a" })).toThrow(/jump.host belongs to kind: ssh/);
  expect(() => place({ kind: "ssh" })).toThrow(/jump.host is missing/);
  expect(() => place({ kind: "telnet" })).toThrow(/jump.kind must be one of ssh, platform/);
});

test("its token must be allowed to use the machines' consoles", () => {
  const { cluster } = place();
  const [first] = cluster.providers;
  expect(first && neededPrivileges(cluster, first).get("/vms")).toContain("VM.Console");
});
