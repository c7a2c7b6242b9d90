// Runs inside a guest whose root is this machine's: starts a confined guest of its own under cgroup version 2 and
// prints what it found as one line of JSON.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { hostHierarchies } from "@gpve/agent/infrastructure/cgroup/hierarchies.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { bootable, guestWorld } from "./guest-world.ts";

const world = await guestWorld();
try {
  const guest = await world.guests().startQemu(
    bootable("100", world.disk("100.raw", "halt"), {
      bounds: { memoryBytes: 700 * 1024 * 1024, tasks: 300 },
    }),
  );
  const add = (filename: string): Promise<string> =>
    guest.qmp
      .execute("blockdev-add", { driver: "raw", "node-name": "added", file: { driver: "file", filename } })
      .then(() => "opened", messageOf);
  const group = /^0::(.*)$/m.exec(readFileSync(`/proc/${guest.pid}/cgroup`, "utf8"))?.[1] ?? "";
  const setting = (name: string): string => readFileSync(join("/sys/fs/cgroup", group, name), "utf8").trim();
  const status = readFileSync(`/proc/${guest.pid}/status`, "utf8");
  const bounded = {
    memory: setting("memory.max"),
    swap: setting("memory.swap.max"),
    tasks: setting("pids.max"),
  };
  guest.raiseBounds({ memoryBytes: 800 * 1024 * 1024, tasks: 200 });
  const raised = { memory: setting("memory.max"), tasks: setting("pids.max") };
  guest.setLimits({ cpuUnits: 200, cpuLimit: 0.5, memoryMaxBytes: 512 * 1024 * 1024 });
  const limited = { cpu: setting("cpu.max"), weight: setting("cpu.weight"), memory: setting("memory.max") };
  guest.setLimits({ cpuLimit: 0, memoryMaxBytes: 0 });
  const own = world.disk("100-new.raw", "halt");
  const before = await add(own);
  await guest.allowFile({ path: own, access: "rw" });
  const found = {
    version: hostHierarchies().version,
    group,
    uid: Number(/^Uid:\s+(\d+)/m.exec(status)?.[1]),
    capabilities: /^CapEff:\s+(\w+)/m.exec(status)?.[1],
    seccomp: /^Seccomp:\s+(\d)/m.exec(status)?.[1],
    usage: guest.usage(),
    limited,
    bounded,
    raised,
    unlimited: { cpu: setting("cpu.max"), memory: setting("memory.max") },
    passwd: await add("/etc/passwd"),
    ownBefore: before,
    own: await add(own),
    exit: (await guest.kill(), (await guest.exited).cause),
  };
  console.log(`FOUND ${JSON.stringify(found)}`);
} finally {
  await world.clean();
}
