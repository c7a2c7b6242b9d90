// A VM's configuration becomes a command line, the command line a confined guest: its console, screen, disk, network
// card and agent channel are reached from outside, and nothing of it needs more than its own files.
import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hostFiles } from "@gpve/agent/infrastructure/facts/host-files.ts";
import { GuestAgentClient } from "@gpve/agent/infrastructure/guest-agent/guest-agent-client.ts";
import { readHostFacts } from "@gpve/agent/infrastructure/qemu/host-facts.ts";
import { askQemu } from "@gpve/agent/infrastructure/qemu/qemu-probe.ts";
import { FREE_DESCRIPTORS } from "@gpve/domain/guest/guest-processes.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { qemuCommand } from "@gpve/domain/vm/argv/qemu-command.ts";
import { exec } from "@gpve/kit/exec.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import { commandPaths } from "./command-paths.ts";
import { type GuestWorld, guestWorld, missingForGuests, QEMU } from "./guest-world.ts";

const missing = missingForGuests();
if (missing !== undefined) console.warn(`SKIPPED guest command line: ${missing}`);

describe.skipIf(missing !== undefined)("a configured VM", () => {
  const bridge = `gc${String(process.pid).slice(-5)}br`;
  const tap = `gc${String(process.pid).slice(-5)}t`;
  const uuid = "7a0ad0b2-0000-4000-8000-000000000500";
  let world: GuestWorld;
  let guest: QemuProcess;

  beforeAll(async () => {
    world = await guestWorld();
    await exec("ip", ["link", "add", "name", bridge, "type", "bridge"]);
    const guests = world.guests();
    const disk = world.disk("vm-500-disk-0.raw", "serial");
    const host = await readHostFacts({
      node: "n1",
      files: hostFiles,
      qemu: await askQemu(QEMU),
      kvmUsable: false,
      folder: world.data.file("agent"),
    });
    const command = qemuCommand({
      vmid: 500,
      config: {
        name: "configured",
        memory: "64",
        cores: "2",
        agent: "1",
        serial0: "socket",
        scsihw: "virtio-scsi-single",
        scsi0: "local:500/vm-500-disk-0.raw,iothread=1,size=1M",
        boot: "order=scsi0",
        net0: `virtio=02:00:00:00:05:00,bridge=${bridge}`,
        smbios1: `uuid=${uuid}`,
      },
      host,
      volumes: () => ({ node: { driver: "file", filename: disk }, format: "raw", contentType: "images" }),
      sha256Hex: (text) => createHash("sha256").update(text).digest("hex"),
      paths: commandPaths(guests, "500", QEMU),
      options: { paused: true, netDescriptors: { net0: { tap: [FREE_DESCRIPTORS.first] } } },
    });
    expect(command.accelerator).toBe("tcg");
    guest = await guests.startQemu({
      id: "500",
      label: "VM 500",
      program: QEMU,
      args: command.argv.slice(1),
      uuid,
      files: [{ path: disk, access: "rw" }],
      taps: [{ name: tap, bridge, firstFd: FREE_DESCRIPTORS.first }],
    });
  });

  afterAll(async () => {
    await world?.clean();
    await exec("ip", ["link", "delete", "dev", bridge], { okCodes: [0, 1] });
  });

  it("boots from its disk and speaks on its serial console", async () => {
    const console0 = await connectUnixSocket(guest.socketPath("serial0"));
    await guest.qmp.execute("cont");
    const heard = await new Promise<string>((resolve) => {
      let text = "";
      console0.on("data", (chunk: Buffer) => {
        text += chunk.toString("latin1");
        if (text.includes("!")) resolve(text);
      });
    });
    console0.destroy();
    expect(heard).toContain("!");
  });

  it("shows its screen", async () => {
    const vnc = await connectUnixSocket(join(guest.ioFolder, "vnc"), { ownerUid: guest.uid ?? 0 });
    const greeting = await new Promise<string>((resolve) => {
      vnc.once("data", (chunk: Buffer) => resolve(chunk.toString("latin1")));
    });
    vnc.destroy();
    expect(greeting).toMatch(/^RFB 003\.00\d/);
    const file = join(guest.ioFolder, "screen.ppm");
    await guest.qmp.execute("screendump", { filename: file });
    expect(readFileSync(file).subarray(0, 2).toString()).toBe("P6");
    expect(statSync(file).uid).toBe(guest.uid);
  });

  it("knows that no agent runs in it", async () => {
    const agent = new GuestAgentClient({
      path: guest.socketPath("qga"),
      label: "VM 500",
      syncTimeoutMs: 300,
    });
    expect(await agent.isRunning()).toBe(false);
    agent.close();
  });

  it("tells what its disks and processors do", async () => {
    const [stats] = await guest.qmp.execute("query-blockstats", {});
    expect(stats?.stats.rd_bytes).toBeGreaterThanOrEqual(512);
    expect(await guest.qmp.execute("query-cpus-fast")).toHaveLength(2);
    expect(await guest.stop()).toMatchObject({ cause: "stopped" });
  });
});
