// The network of VMs on bridges and taps of the kernel, in a network namespace of its own.
import { existsSync } from "node:fs";
import { createServer, type AddressInfo, type Server } from "node:net";
import { describe } from "vitest";
import { kernelLink } from "@gpve/agent/infrastructure/net/kernel-links.ts";
import { VmBridges } from "@gpve/agent/infrastructure/net/vm-bridges.ts";
import { vmNetworkConformance } from "@gpve/agent/testing/vm-network-conformance.ts";
import { exec, type Exec } from "@gpve/kit/exec.ts";

const missing = [
  ...(process.getuid?.() === 0 ? [] : ["root"]),
  ...(existsSync("/dev/net/tun") ? [] : ["/dev/net/tun"]),
  ...(existsSync("/usr/sbin/nft") ? [] : ["nftables (apt-get install nftables)"]),
];
if (missing.length > 0) console.warn(`SKIPPED vm-bridges: needs ${missing.join(", ")}`);

let worlds = 0;

describe.skipIf(missing.length > 0)("bridges of the kernel", () => {
  vmNetworkConformance(async () => {
    const name = `gpve-br-${process.pid}-${worlds++}`;
    await exec("ip", ["netns", "add", name]);
    const inside: Exec = (file, args, options) => exec("ip", ["netns", "exec", name, file, ...args], options);
    // Its view of /sys is that network's.
    const filesInside = {
      read: (path: string) =>
        inside("cat", [path]).then(
          ({ stdout }) => stdout,
          () => undefined,
        ),
      list: (path: string) =>
        inside("ls", [path]).then(
          ({ stdout }) => stdout.split("\n").filter(Boolean),
          () => [],
        ),
    };
    const link = (...args: string[]) => inside("ip", ["link", ...args]);
    const bridges = ["vmbr0", "vmbr1"] as const;
    for (const bridge of bridges) await link("add", bridge, "type", "bridge");
    await link("set", "vmbr0", "mtu", "1400");
    const taps = new Set<string>();
    const open = () =>
      new VmBridges({
        instanceId: "abcdef",
        exec: inside,
        exists: (device) => taps.has(device),
        link: (device) => kernelLink(filesInside, device),
      });
    const servers: Server[] = [];
    return {
      network: open(),
      bridges,
      async makeTap(tap) {
        await inside("ip", ["tuntap", "add", "dev", tap, "mode", "tap"]);
        taps.add(tap);
      },
      async masterOf(tap) {
        const { stdout } = await inside("ip", ["-j", "link", "show", "dev", tap]);
        return (JSON.parse(stdout) as { master?: string }[])[0]?.master;
      },
      async takePort() {
        const server = createServer();
        servers.push(server);
        await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
        return (server.address() as AddressInfo).port;
      },
      reopen: open,
      async clean() {
        for (const server of servers) server.close();
        await exec("ip", ["netns", "del", name]);
      },
    };
  });
});
