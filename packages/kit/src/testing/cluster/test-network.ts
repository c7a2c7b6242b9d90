// A small network for tests: one switch (a bridge in a namespace of its own), machines as network namespaces on
// it, and the test itself on a port of its own. Names carry an id, so that several can exist side by side.
//
//   test (host) --veth-- [ namespace gpvet-ID-sw: bridge ] --veth-- gpvet-ID-NAME (eth0)
import { AppError } from "@gpve/contracts/errors.ts";
import { exec } from "../../exec.ts";
import { identify } from "../../process-identity.ts";

const PREFIX = "gpvet-";

export interface TestMachine {
  readonly name: string;
  readonly namespace: string;
  readonly address: string;
  /** argv prefix that runs a program on this machine. */
  readonly enter: readonly string[];
  /** The cable is pulled: frames vanish, no error is sent. */
  cutOff(): Promise<void>;
  heal(): Promise<void>;
}

export interface TestNetwork {
  readonly id: string;
  /** Where the test itself is. */
  readonly hostAddress: string;
  addMachine(name: string): Promise<TestMachine>;
  close(): Promise<void>;
}

/** undefined when namespaces can be made here; else what is missing and how to get it. */
export async function networkProblem(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return "network namespaces need root: run the tests as root";
  try {
    await exec("unshare", ["--net", "ip", "link", "add", "gpvebr", "type", "bridge"]);
    return undefined;
  } catch (err) {
    const why = err instanceof Error ? err.message : String(err);
    return `network namespaces with bridges cannot be made (${why}): apt-get install -y iproute2 util-linux, on a kernel with veth and bridge`;
  }
}

/** Takes down what tests that were killed left behind. */
export async function sweepTestNetworks(): Promise<void> {
  for (const namespace of await namespaces()) {
    // gpvet-<pid>x<counter>-<machine>
    const owner = /^gpvet-(\d+)x/.exec(namespace)?.[1];
    if (owner !== undefined && identify(Number(owner)) === undefined) await removeNamespace(namespace);
  }
}

let counter = 0;

export async function createTestNetwork(): Promise<TestNetwork> {
  const id = `${process.pid}x${counter++}`;
  const subnet = await freeSubnet();
  const gateway = `${PREFIX}${id}-sw`;
  const made: string[] = [];
  const port = (index: number): string => `gv${id}.${index}`;
  const host = `${subnet}.1`;
  const inSwitch = (...args: string[]): Promise<unknown> => ip("-n", gateway, ...args);
  let machines = 0;
  const plug = async (index: number, peer: string, target: string): Promise<void> => {
    await ip(
      "link",
      "add",
      port(index),
      "netns",
      gateway,
      "type",
      "veth",
      "peer",
      "name",
      peer,
      ...(target === "" ? [] : ["netns", target]),
    );
    await inSwitch("link", "set", port(index), "master", "br0", "up");
  };
  const network: TestNetwork = {
    id,
    hostAddress: host,
    async addMachine(name) {
      const index = ++machines;
      const namespace = `${PREFIX}${id}-${name}`;
      const address = `${subnet}.${10 + index}`;
      await ip("netns", "add", namespace);
      made.push(namespace);
      await plug(index, "eth0", namespace);
      await ip("-n", namespace, "link", "set", "lo", "up");
      await ip("-n", namespace, "address", "add", `${address}/24`, "dev", "eth0");
      await ip("-n", namespace, "link", "set", "eth0", "up");
      return {
        name,
        namespace,
        address,
        enter: ["ip", "netns", "exec", namespace],
        cutOff: async () => void (await inSwitch("link", "set", port(index), "nomaster")),
        heal: async () => void (await inSwitch("link", "set", port(index), "master", "br0")),
      };
    },
    async close() {
      for (const namespace of made.toReversed()) await removeNamespace(namespace);
    },
  };
  try {
    await ip("netns", "add", gateway);
    made.push(gateway);
    await inSwitch("link", "add", "br0", "type", "bridge");
    await inSwitch("link", "set", "br0", "up");
    // The host's end goes with the namespace that holds the other one.
    await plug(0, port(9), "");
    await ip("address", "add", `${host}/24`, "dev", port(9));
    await ip("link", "set", port(9), "up");
    return network;
  } catch (err) {
    await network.close();
    throw err;
  }
}

async function ip(...args: string[]): Promise<string> {
  return (await exec("ip", args)).stdout;
}

async function namespaces(): Promise<string[]> {
  const listed = JSON.parse((await ip("-j", "netns", "list")) || "[]") as readonly { name: string }[];
  return listed.map((row) => row.name).filter((name) => name.startsWith(PREFIX));
}

async function removeNamespace(namespace: string): Promise<void> {
  const pids = (await ip("netns", "pids", namespace)).split("\n").filter((pid) => pid !== "");
  for (const pid of pids) {
    try {
      process.kill(Number(pid), "SIGKILL");
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code !== "ESRCH") throw err;
    }
  }
  await ip("netns", "delete", namespace);
}

/** A /24 in 10.213.0.0/16 that no interface of this machine has. */
async function freeSubnet(): Promise<string> {
  const rows = JSON.parse(await ip("-j", "address")) as readonly {
    addr_info: readonly { local?: string }[];
  }[];
  const taken = new Set(
    rows.flatMap((row) => row.addr_info.map((info) => info.local?.split(".").slice(0, 3).join("."))),
  );
  for (let attempt = 0; attempt < 256; attempt++) {
    const subnet = `10.213.${(process.pid + counter + attempt) % 256}`;
    if (!taken.has(subnet)) return subnet;
  }
  throw new AppError("internal.error", "no free 10.213.x.0/24 for a test network");
}
