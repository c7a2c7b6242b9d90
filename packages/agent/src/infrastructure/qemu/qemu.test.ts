import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { HostFiles } from "../facts/host-files.ts";
import { hostTries, readHostFacts } from "./host-facts.ts";
import { askQemu, type QemuKnowledge } from "./qemu-probe.ts";

const says =
  (stdout: string): Exec =>
  async () =>
    await Promise.resolve({ code: 0, stdout, stderr: "" });
const refuses: Exec = async () => await Promise.reject(new AppError("internal.error", "no"));

describe("what a QEMU knows", () => {
  it("is asked over its standard streams", async () => {
    const answer = [
      '{"QMP": {}}',
      '{"return": {}}',
      '{"return": {"qemu": {"major": 7, "minor": 2, "micro": 22}, "package": "Debian"}, "id": "version"}',
      '{"return": [{"name": "pc-i440fx-7.2", "alias": "pc"}], "id": "machines"}',
      '{"return": [{"name": "e1000"}], "id": "devices"}',
      '{"return": [{"name": "iothread"}], "id": "objects"}',
      '{"return": [{"name": "stop"}], "id": "commands"}',
      "noise",
    ].join("\n");
    const known = await askQemu("/usr/bin/qemu", says(answer));
    expect(known).toMatchObject({ version: "7.2.22", package: "Debian", machines: [{ alias: "pc" }] });
    expect(known.devices.has("e1000") && known.objects.has("iothread") && known.commands.has("stop")).toBe(
      true,
    );
  });

  it("is refused with the reason when it does not answer", async () => {
    await expect(askQemu("/usr/bin/qemu", refuses)).rejects.toMatchObject({ code: "feature.unsupported" });
    await expect(askQemu("/usr/bin/qemu", says(""))).rejects.toThrow("did not say its version");
  });
});

describe("the facts behind a command line", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-facts-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const qemu: QemuKnowledge = {
    binary: "/usr/bin/qemu",
    version: "7.2.22",
    package: "",
    machines: [],
    devices: new Set(),
    objects: new Set(),
    commands: new Set(),
  };
  const host = (texts: Record<string, string>, lists: Record<string, readonly string[]>): HostFiles => ({
    read: async (path) => await Promise.resolve(texts[path]),
    readBytes: async () => await Promise.resolve(undefined),
    list: async (path) => await Promise.resolve(lists[path] ?? []),
    mtime: async () => await Promise.resolve(undefined),
    space: async () => await Promise.resolve({ total: 0, free: 0, avail: 0 }),
  });

  it("are read from the host", async () => {
    const facts = await readHostFacts({
      node: "n1",
      files: host(
        {
          "/sys/class/net/vmbr0/mtu": "1400\n",
          "/sys/class/net/eth0/mtu": "9000\n",
          "/proc/cpuinfo":
            "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: vmx aes\naddress sizes\t: 46 bits physical, 48 bits virtual\n",
          "/etc/iscsi/initiatorname.iscsi": "InitiatorName=iqn.2026-01.x:y\n",
        },
        {
          "/sys/class/net": ["eth0", "vmbr0"],
          "/sys/class/net/vmbr0/bridge": ["vlan_filtering"],
          "/dev": ["ttyS0", "null"],
          "/dev/dri": ["renderD128"],
          "/sys/kernel/mm/hugepages": ["hugepages-2048kB", "hugepages-1048576kB"],
          "/sys/devices/system/node": ["node0", "possible"],
          "/sys/bus/pci/devices": ["0000:00:01.0"],
          "/usr/lib/ipxe/qemu": ["efi-virtio.rom", "efi-e1000.rom"],
        },
      ),
      qemu,
      kvmUsable: true,
      folder,
      tries: { vhostNet: () => true, ioUring: async () => await Promise.resolve(false) },
    });
    expect(facts).toMatchObject({
      nodeName: "n1",
      cpuVendor: "GenuineIntel",
      cpus: 1,
      physBits: 46,
      qemuVersion: "7.2.22",
      kvmUsable: true,
      vhostNet: true,
      ioUring: false,
      netBootRoms: true,
      hugepageSizesMiB: [2, 1024],
      numaNodes: [0],
      bridgeMtu: { vmbr0: 1400 },
      pciDevices: ["0000:00:01.0"],
      renderNode: true,
      iscsiInitiator: "iqn.2026-01.x:y",
    });
    expect(facts.features.has("hpet-flag")).toBe(true);
    expect(facts.features.has("reconnect-ms")).toBe(false);
    expect([...facts.characterDevices]).toEqual(["/dev/ttyS0"]);
  });

  it("are less on a bare host", async () => {
    const facts = await readHostFacts({
      node: "n1",
      files: host({}, {}),
      exec: says("[]"),
      qemu,
      kvmUsable: false,
      folder,
    });
    expect(facts.physBits).toBeUndefined();
    expect(facts.iscsiInitiator).toBeUndefined();
    expect(facts.netBootRoms).toBe(false);
  });

  it("are found by trying", async () => {
    expect(typeof hostTries(folder, says("")).vhostNet()).toBe("boolean");
    expect(await hostTries(folder, says("")).ioUring()).toBe(true);
    expect(await hostTries(folder, refuses).ioUring()).toBe(false);
  });
});
