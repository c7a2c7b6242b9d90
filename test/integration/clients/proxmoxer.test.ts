// proxmoxer, Debian's old one and PyPI's new one, takes a VM with a real Linux through its whole life.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import {
  clientsFolder,
  DEBIAN_PYTHON,
  lacksPython,
  login,
  pypiPython,
  skipping,
} from "../../support/foreign-clients.ts";
import { apiOf, startGpve, type Gpve } from "../../support/gpve.ts";
import { tinyImage } from "../../support/images.ts";
import { testBridge, type TestBridge } from "../../support/test-bridge.ts";

const packages = "python3-proxmoxer python3-requests python3-requests-toolbelt python3-venv";
const lacking = existsSync("/usr/bin/qemu-system-x86_64")
  ? await lacksPython("proxmoxer, requests, requests_toolbelt, venv, ensurepip", packages)
  : "no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils";

describe.skipIf(skipping("proxmoxer", lacking))("proxmoxer", () => {
  let gpve: Gpve;
  let bridge: TestBridge;
  beforeAll(async () => {
    bridge = await testBridge({ guestsFrom: 6200 });
    gpve = await startGpve();
    await apiOf(gpve.credentials)("PUT", "/cluster/options", { "next-id": "lower=6200" });
  });
  afterAll(async () => {
    await gpve.stop();
    await bridge.remove();
  });

  const round = async (python: string, how: "password" | "token"): Promise<Record<string, unknown>> => {
    const { url, caFile } = gpve.credentials;
    const { hostname, port } = new URL(url);
    const { user, input } = login(gpve.credentials, how);
    const script = join(clientsFolder, "proxmoxer-round.py");
    const argv = [script, hostname, port, caFile, how, user, await tinyImage(), bridge.name];
    const { stdout } = await exec(python, argv, { input, timeoutMs: 170_000 });
    return JSON.parse(stdout) as Record<string, unknown>;
  };

  test.each([
    { version: "Debian's 1.2", how: "password", python: () => Promise.resolve(DEBIAN_PYTHON) },
    { version: "PyPI's 2.3", how: "token", python: pypiPython },
  ] as const)("$version, by $how", async ({ how, python }) => {
    const seen = await round(await python(), how);
    expect(seen).toMatchObject({
      isos: { [`local:iso/small-${how}.iso`]: 3000, [`local:iso/big-${how}.iso`]: 11 * 1024 * 1024 + 17 },
      put: null,
      config: {
        agent: "1",
        cores: 2,
        description: "made by proxmoxer\nsecond line",
        ide2: `local:iso/small-${how}.iso,media=cdrom,size=3000`,
        scsi0: "local:6200/vm-6200-disk-0.qcow2,size=128M",
        scsi1: "local:6200/vm-6200-disk-1.qcow2,size=2G",
        tags: "one;two",
        digest: expect.stringMatching(/^[0-9a-f]{40}$/),
      },
      osinfo: "gpve-tiny",
      interfaces: expect.arrayContaining(["lo"]),
      exec: { exited: 1, exitcode: 0, "out-data": "tiny\n" },
      read: { content: "before", "bytes-read": 6 },
      current: { status: "running", qmpstatus: "running", vmid: 6200, cpus: 2, maxmem: 256 * 1024 * 1024 },
      resource: {
        id: "qemu/6200",
        type: "qemu",
        vmid: 6200,
        template: 0,
        status: "running",
        tags: "one;two",
      },
      "rolled back": "before",
      snapshots: [
        { name: "first", description: "with memory", vmstate: 1, snaptime: expect.any(Number) },
        { name: "current", parent: "first", running: 1, description: "You are here!" },
      ],
      "snapshot config": { vmstate: "local:6200/vm-6200-state-first.raw", snaptime: expect.any(Number) },
      template: 1,
      linked: {
        name: "px-linked",
        scsi0: "local:6201/base-6201-disk-0.qcow2/6202/vm-6202-disk-0.qcow2,size=128M",
      },
      stopped: "stopped",
      left: [],
    });
    expect(seen["config"]).not.toHaveProperty("net0");
    expect(seen["exits"]).toEqual({
      "upload small": "imgcopy",
      "upload big": "imgcopy",
      "upload checked": "imgcopy",
      "upload image": "imgcopy",
      create: "qmcreate",
      "post config": "qmconfig",
      resize: "resize",
      start: "qmstart",
      snapshot: "qmsnapshot",
      rollback: "qmrollback",
      "delete snapshot": "qmdelsnapshot",
      clone: "qmclone",
      template: "qmtemplate",
      "linked clone": "qmclone",
      shutdown: "qmshutdown",
      "delete linked": "qmdestroy",
      "delete full": "qmdestroy",
      "delete vm": "qmdestroy",
      "delete volume": "imgdel",
    });
    // What it is refused, it is refused in words that other tools look for.
    expect(seen).toMatchObject({
      taken: expect.stringContaining("unable to create VM 6200 - VM 6200 already exists on node"),
      stale: expect.stringContaining("checksum mismatch (file change by other user?)"),
      bad: expect.stringContaining("400 Bad Request: Parameter verification failed."),
      "not running": expect.stringContaining("VM 6200 is not running"),
      again: "start again: VM 6200 already running",
      waiting: expect.stringContaining("QEMU guest agent is not running"),
      "base in use":
        "delete base: base volume 'local:6201/base-6201-disk-0.qcow2' is still in use by linked cloned",
      gone: expect.stringMatching(/Configuration file 'nodes\/\S+\/qemu-server\/6200\.conf' does not exist/),
    });
  });
});
