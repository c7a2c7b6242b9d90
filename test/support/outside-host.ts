// Another machine, as far as this one can tell: a network namespace at the end of a cable, with a service that says its name.
import { exec } from "@gpve/kit/exec.ts";
import { startChild } from "@gpve/kit/testing/child.ts";
import { nodeBinary } from "./gpve.ts";

export interface OutsideHost {
  readonly address: string;
  /** Our own end of the cable. */
  readonly near: string;
  readonly port: number;
  remove(): Promise<void>;
}

const PORT = 7_001;

export async function outsideHost(words: string): Promise<OutsideHost> {
  const name = `gpveo${process.pid}`;
  const network = `10.${200 + (process.pid % 50)}.9`;
  await exec("ip", ["netns", "add", name]);
  await exec("ip", ["link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name]);
  await exec("ip", ["addr", "add", `${network}.1/24`, "dev", name]);
  await exec("ip", ["link", "set", name, "up"]);
  for (const args of [
    ["addr", "add", `${network}.2/24`, "dev", "eth0"],
    ["link", "set", "eth0", "up"],
  ])
    await exec("ip", ["-n", name, ...args]);
  const script = `require("net").createServer((s) => s.end(process.argv[1])).listen(${PORT}, () => console.log("on"))`;
  const service = startChild("ip", ["netns", "exec", name, nodeBinary, "-e", script, words]);
  await new Promise<void>((resolve) => service.onLine(() => resolve()));
  return {
    address: `${network}.2`,
    near: `${network}.1`,
    port: PORT,
    remove: async () => {
      await service.stop();
      await exec("ip", ["netns", "del", name]);
      await exec("ip", ["link", "del", name], { okCodes: [0, 1] });
    },
  };
}
