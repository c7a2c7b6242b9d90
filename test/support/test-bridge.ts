// A bridge of a test's own, for guests whose network does not matter but must be there.
import { exec } from "@gpve/kit/exec.ts";

export interface TestBridge {
  readonly name: string;
  remove(): Promise<void>;
}

export interface GuestNumbers {
  /**
   * The hundred that the file's guests are numbered from. A tap has its guest's number for a name, and a host has each name
   * once: no two files that run side by side may have the same one. Those who use the bridge of `up` take turns instead
   * (network-turn.ts) and have the hundred from 100 on.
   */
  readonly guestsFrom: number;
}

export async function testBridge(_numbers: GuestNumbers): Promise<TestBridge> {
  const name = `gpvet${process.pid}`;
  await exec("ip", ["link", "add", name, "type", "bridge"]);
  await exec("ip", ["link", "set", name, "up"]);
  return {
    name,
    remove: async () => {
      await exec("ip", ["link", "del", name]);
    },
  };
}
