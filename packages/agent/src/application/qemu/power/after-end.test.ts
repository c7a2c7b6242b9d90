import { afterEach, beforeEach, expect, test } from "vitest";
import { heardLog } from "../../../testing/heard-log.ts";
import { VmWorld } from "../../../testing/vm-world.ts";
import { watchEnds } from "../../guest/guest-end.ts";
import { adoptFilters } from "../start/adopt-filters.ts";
import { afterProcessEnd, afterVmEnd } from "./after-end.ts";

let world: VmWorld;
beforeEach(async () => {
  world = await VmWorld.open();
});
afterEach(() => world.remove());

test("a VM that ends takes its helpers, devices and filters with it, and its hook script is run", async () => {
  const { log, lines } = heardLog();
  const runs: string[] = [];
  Object.assign(world.host.scripts, {
    run: async (path: string, args: readonly string[]) => {
      runs.push([path.split("/").at(-1), ...args].join(" "));
      return 0;
    },
  });
  world.put("snippets/h.sh");
  await world.add(100, { hookscript: "local:snippets/h.sh" });
  watchEnds({
    processes: world.guests,
    log,
    kindOf: () => ({ type: "qemu", atEnd: afterVmEnd(world.host) }),
    ofEach: afterProcessEnd(world.host),
  });
  const tpm = await world.guests.start({ id: "100-tpm", label: "TPM", program: "", args: [], files: [] });
  await world.run(100);
  await world.guests.get("100")?.end("shutdown");
  await expect.poll(() => tpm.hasExited).toBe(true);
  await expect
    .poll(() => world.network.done)
    .toEqual(["unwall 100", "sweep", "unfilter 100", "unwall 100-tpm"]);
  await expect.poll(() => runs).toEqual(["h.sh 100 post-stop"]);
  expect(lines.filter((line) => line.startsWith("error"))).toEqual([]);
});

test("guests that ran before the agent have their filters again; where that fails it is told", async () => {
  const { log, lines } = heardLog();
  await world.add(100, { net0: "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1" });
  await world.run(100);
  const ports = { network: world.network, configs: world.configs, log };
  await adoptFilters(ports, world.guests.list());
  expect(world.network.done).toEqual(["adopt walls 100", "adopt 100 net0"]);
  world.network.failure = new Error("no nft");
  await adoptFilters(ports, world.guests.list());
  expect(lines).toEqual([
    "error user-mode networks may reach this machine's own services",
    "error cards with firewall=1 may send with any MAC address",
  ]);
  world.network.failure = undefined;
  world.network.tapsMissing = "not root";
  await adoptFilters(ports, world.guests.list());
  expect(world.network.done.slice(2)).toEqual(["adopt walls 100"]);
});
