// A small network of its own for each etcd member, so that one can be cut off from the others while clients still
// reach it. Needs root and iproute2.
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { exec } from "@gpve/kit/exec.ts";

const IP = ["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip"].find((path) => existsSync(path));

/** Why members cannot be cut off here; undefined when they can. */
export const networkMissing =
  IP === undefined
    ? "no ip program found; install it with: apt-get install iproute2"
    : process.getuid?.() === 0
      ? undefined
      : "making network namespaces needs root";

export interface MemberNetwork {
  address(member: number): string;
  /** The command line that runs a program inside the member's network. */
  inside(member: number, argv: readonly string[]): readonly string[];
  /** From all other members, in both directions. */
  cutOff(member: number): Promise<void>;
  rejoin(member: number): Promise<void>;
  remove(): Promise<void>;
}

export async function makeMemberNetwork(members: number): Promise<MemberNetwork> {
  if (IP === undefined) throw new Error(networkMissing);
  const program = IP;
  const id = randomBytes(3).toString("hex");
  // 198.18.0.0/15 is set aside for tests.
  const subnet = `198.18.${randomBytes(1)[0] ?? 0}`;
  const bridge = `gt${id}`;
  const space = (member: number): string => `gpve-${id}-${member}`;
  const address = (member: number): string => `${subnet}.${10 + member}`;
  const ip = async (...args: string[]): Promise<void> => void (await exec(program, args));
  const others = (member: number): number[] =>
    Array.from({ length: members }, (_, i) => i).filter((i) => i !== member);
  const remove = async (): Promise<void> => {
    for (let i = 0; i < members; i++) await exec(program, ["netns", "del", space(i)], { okCodes: [0, 1] });
    await exec(program, ["link", "del", bridge], { okCodes: [0, 1] });
  };
  try {
    await ip("link", "add", bridge, "type", "bridge");
    await ip("address", "add", `${subnet}.1/24`, "dev", bridge);
    await ip("link", "set", bridge, "up");
    for (let i = 0; i < members; i++) {
      const outer = `${bridge}-${i}`;
      await ip("netns", "add", space(i));
      await ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space(i));
      await ip("link", "set", outer, "master", bridge, "up");
      await ip("-n", space(i), "address", "add", `${address(i)}/24`, "dev", "eth0");
      await ip("-n", space(i), "link", "set", "eth0", "up");
      await ip("-n", space(i), "link", "set", "lo", "up");
    }
  } catch (err) {
    await remove();
    throw err;
  }
  return {
    address,
    inside: (member, argv) => [program, "netns", "exec", space(member), ...argv],
    async cutOff(member) {
      for (const other of others(member)) {
        await ip("-n", space(member), "route", "add", "blackhole", `${address(other)}/32`);
      }
    },
    async rejoin(member) {
      for (const other of others(member)) {
        await ip("-n", space(member), "route", "del", "blackhole", `${address(other)}/32`);
      }
    },
    remove,
  };
}
