// What a Talos cluster of a test stands on: one gpve with a bridge of its own, or three nodes as `./gpve up --nodes` has
// them. Guests and this machine reach each other in both.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { exec } from "@gpve/kit/exec.ts";
import { startGpve, apiOf, type Api, type Credentials } from "./gpve.ts";
import { newLab, tracesOf } from "./lab.ts";
import { endClustersOf, leftOfClusters } from "./left-clusters.ts";

export interface TalosGround {
  readonly data: string;
  readonly api: Api;
  readonly credentials: Credentials;
  readonly nodes: readonly string[];
  /** Has images, disks and drives. */
  readonly storage: string;
  readonly bridge: string;
  /** Of the guests, without the last part. */
  readonly network: string;
  /** This machine, as guests see it. */
  readonly host: string;
  /** This machine, as nodes see it. */
  readonly outside: string;
  /** What there still is of guests and virtual clusters, line by line. */
  left(): Promise<readonly string[]>;
  stop(): Promise<void>;
}

export async function oneNode(bridge: string, network: string): Promise<TalosGround> {
  // One that a killed run left is in the way.
  await exec("ip", ["link", "del", bridge], { okCodes: [0, 1] });
  await exec("ip", ["link", "add", bridge, "type", "bridge"]);
  await exec("ip", ["addr", "add", `${network}.1/24`, "dev", bridge]);
  await exec("ip", ["link", "set", bridge, "up"]);
  const gpve = await startGpve();
  const api = apiOf(gpve.credentials);
  await api("PUT", "/storage/local", { content: "iso,vztmpl,backup,snippets,import,images,rootdir" });
  return {
    data: gpve.data,
    api,
    credentials: gpve.credentials,
    nodes: await nodesOf(api),
    storage: "local",
    bridge,
    network,
    host: `${network}.1`,
    outside: "127.0.0.1",
    left: () => leftOfClusters(gpve.data),
    stop: async () => {
      await endClustersOf(gpve.data);
      await gpve.stop();
      await exec("ip", ["link", "del", bridge], { okCodes: [0, 1] });
    },
  };
}

/** `env`: of agents, beside the minimal one. */
export async function threeNodes(env: Readonly<Record<string, string>> = {}): Promise<TalosGround> {
  const lab = newLab(env);
  try {
    await lab.gpve("up", "--nodes", "3", "--detach", "--listen", "127.0.0.1:0");
    const { urls } = lab.credentials();
    const outside = await addressTowards(new URL(urls[0] ?? "").hostname);
    const host = await addressAmongGuests(lab.data);
    return {
      data: lab.data,
      api: lab.api(),
      credentials: lab.credentials(),
      nodes: lab.credentials().nodes,
      storage: "shared",
      bridge: "vmbr0",
      network: host.replace(/\.\d+$/, ""),
      host,
      outside,
      left: async () =>
        (await tracesOf(lab.data)).filter((line) => /vclusters|-vc\d|gpve_vc_|qemu-system/.test(line)),
      stop: () => lab.remove(),
    };
  } catch (err) {
    await lab.remove();
    throw err;
  }
}

async function nodesOf(api: Api): Promise<readonly string[]> {
  return ((await api("GET", "/nodes")).data as { node: string }[]).map(({ node }) => node);
}

/** Which of this machine's addresses another one sees. */
async function addressTowards(other: string): Promise<string> {
  const { stdout } = await exec("ip", ["-j", "route", "get", other]);
  const [route] = JSON.parse(stdout) as { prefsrc: string }[];
  return route?.prefsrc ?? "";
}

/** The one that this machine has in the network of a lab's guests, which is there a moment after its nodes. */
async function addressAmongGuests(data: string): Promise<string> {
  const { instanceId } = JSON.parse(readFileSync(join(data, "instance.json"), "utf8")) as {
    instanceId: string;
  };
  const bridge = `g${instanceId}lan`;
  const until = performance.now() + 120_000;
  for (;;) {
    const { stdout } = await exec("ip", ["-j", "-4", "addr", "show", "dev", bridge], { okCodes: [0, 1] });
    const [device] = JSON.parse(stdout === "" ? "[]" : stdout) as { addr_info?: { local: string }[] }[];
    const address = device?.addr_info?.[0]?.local;
    if (address !== undefined) return address;
    if (performance.now() > until) throw new Error(`this machine has no address at ${bridge}: ${stdout}`);
    await new Promise((done) => setTimeout(done, 200));
  }
}
