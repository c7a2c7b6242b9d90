// A bridge of a test's own, for guests whose network does not matter but must be there.
import { exec } from "@gpve/kit/exec.ts";

export interface TestBridge {
  readonly name: string;
  remove(): Promise<void>;
}

export async function testBridge(): Promise<TestBridge> {
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
