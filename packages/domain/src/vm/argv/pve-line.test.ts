// Small configurations, one per decision, and the line a PVE node would run for them.
import { describe, expect, test } from "vitest";
import { sampleCommand, sampleVolumes, sampleInput } from "./testing/sample-host.ts";
import type { HostFacts } from "./host-facts.ts";
import { qemuCommand } from "./qemu-command.ts";

type Config = Readonly<Record<string, string>>;

const line = (config: Config, host: Partial<HostFacts> = {}, options = {}) =>
  sampleCommand(config, host, { dialect: "pve", ...options });
const mac = "AA:BB:CC:DD:EE:FF";
const arm = { arch: "aarch64", bios: "ovmf" };

describe("the frame", () => {
  test("names threads where QEMU does not by itself", () => {
    expect(line({ name: "a" }).one("-name")).toBe("a");
    expect(line({}, { qemuVersion: "10.1.2" }).one("-name")).toBe("vm100,debug-threads=on");
  });

  test("has PVE's event monitor from machine version 2.12 on", () => {
    expect(line({ machine: "pc-i440fx-2.12" }).all("-mon")).toHaveLength(2);
    expect(line({ machine: "pc-i440fx-2.11" }).all("-mon")).toHaveLength(1);
    expect(line({}, { qemuVersion: "9.1.0" }).text).toContain("qmp-event,reconnect=5 ");
  });

  test("says that a release candidate runs any machine version", () => {
    const { warnings, one } = line({ machine: "pc-i440fx-11.1" }, { qemuVersion: "11.0.92" });
    expect(warnings).toEqual([
      "warning: Installed QEMU version (11.0.92) is a release candidate, ignoring version checks",
    ]);
    expect(one("-machine")).toContain("type=pc-i440fx-11.1+pve0");
  });

  test("counts sockets by their old name too", () => {
    expect(line({ smp: "2", cores: "2" }).one("-smp")).toBe("4,sockets=2,cores=2,maxcpus=4");
    expect(line({ smp: "2", sockets: "3" }).one("-smp")).toBe("3,sockets=3,cores=1,maxcpus=3");
  });

  test("keeps memory from being merged, and loads a saved state from its path", () => {
    const { one } = line({ "allow-ksm": "0", machine: "q35,viommu=intel", vmstate: "store:state.raw" });
    expect(one("-machine")).toBe("type=q35+pve0,kernel-irqchip=split,mem-merge=off");
    expect(one("-loadstate")).toBe("/store/state.raw");
    expect(line({ "allow-ksm": "1" }).one("-machine")).not.toContain("mem-merge");
  });

  test("writes TDX's interrupt controller as PVE does", () => {
    const host = { hwCapabilities: { "intel-tdx": { "tdx-support": true } } };
    expect(line({ "intel-tdx": "tdx,attestation=0", bios: "ovmf" }, host).one("-machine")).toBe(
      "type=pc+pve0,confidential-guest-support=tdx0,kernel_irqchip=split",
    );
  });
});

describe("CPUs", () => {
  const cpu = (config: Config, host: Partial<HostFacts> = {}) => line(config, host).cpu;

  test("lose control-flow flags for new Windows where QEMU shows them", () => {
    expect(cpu({ ostype: "win11", machine: "pc-q35-9.0" })).toContain("-cet-ibt,-cet-ss");
    expect(cpu({ ostype: "win11", kvm: "0" })).toBe("qemu64,-cet-ibt,-cet-ss");
    expect(cpu({ ostype: "win10", machine: "pc-q35-9.0" })).not.toContain("cet");
    expect(cpu({ ostype: "win11", machine: "pc-q35-9.0" }, { qemuVersion: "10.2.0" })).not.toContain("cet");
  });

  test.each([
    [{ cpu: "host", machine: "pc-q35-10.2" }, {}, true],
    [{ cpu: "host", machine: "pc-q35-11.0" }, {}, false],
    [{ cpu: "host" }, {}, false],
    [{ cpu: "max", machine: "pc-q35-10.2" }, {}, false],
    [{ cpu: "host", machine: "pc-q35-10.2" }, { cpuVendor: "AuthenticAMD" }, true],
    [{ cpu: "host", machine: "pc-q35-10.1" }, { qemuVersion: "10.2.0" }, false],
  ] as [Config, Partial<HostFacts>, boolean][])("%o on %o loses MBEC: %s", (config, host, expected) => {
    expect(cpu(config, host).includes("-vmx-mbec")).toBe(expected);
  });

  test.each([
    [{ machine: "pc-q35-11.0+pve2" }, {}, true, "type=pc-q35-11.0+pve2"],
    [{ machine: "pc-q35-11.0+pve2", cpu: "x86-64-v3" }, {}, true, "type=pc-q35-11.0+pve2"],
    [{ machine: "pc-q35-11.0+pve1" }, {}, false, "type=pc-q35-11.0+pve0"],
    [{ machine: "pc-q35-11.0+pve2" }, { cpuVendor: "AuthenticAMD" }, false, "type=pc-q35-11.0+pve0"],
  ] as [Config, Partial<HostFacts>, boolean, string][])(
    "Windows 11 with %o on %o has enlightened VMCS: %s",
    (config, host, expected, machine) => {
      const { cpu: text, one } = line({ ostype: "win11", ...config }, host);
      expect(text.includes("hv_evmcs")).toBe(expected);
      expect(one("-machine")).toContain(machine);
    },
  );

  test("are those of the guest's architecture", () => {
    expect(cpu(arm)).toBe("max");
    expect(cpu({ ...arm, cpu: "cortex-a72" })).toBe("cortex-a72");
    expect(cpu({ bios: "ovmf" }, { arch: "aarch64" })).toBe("host");
    expect(() => cpu({ ...arm, cpu: "host" })).toThrow(
      "CPU model 'host' does not exist for configured vCPU architecture 'aarch64'",
    );
    expect(() => cpu({ ...arm, cpu: "x86-64-v2" })).toThrow("does not exist for configured vCPU");
    expect(() => cpu({ cpu: "neoverse-n1" })).toThrow(
      "CPU model 'neoverse-n1' does not exist for configured vCPU architecture 'x86_64'",
    );
    expect(cpu({ cpu: "DiamondRapids" })).toContain("vendor=GenuineIntel");
  });

  test("of ARM have neither level, vendor, Hyper-V nor hiding", () => {
    const { cpu: text, warnings } = line({ ...arm, cpu: "max,level=3,hidden=1", ostype: "win11", kvm: "1" });
    expect(text).toBe("max");
    expect(warnings).toContain("CPU 'level' property is ignored for architecture 'aarch64'");
  });

  test("with wide addresses under OVMF need large pages", () => {
    const warned = (config: Config, host: Partial<HostFacts> = {}) =>
      line({ bios: "ovmf", efidisk0: "store:e.raw", ...config }, host).warnings;
    const text =
      "OVMF firmware might limit CPU 'phys-bits' to 40 - enable the 'pdpe1gb' CPU flag to avoid this";
    expect(warned({ cpu: "kvm64,phys-bits=41" })).toEqual([text]);
    expect(warned({ cpu: "x86-64-v3,phys-bits=host" })).toEqual([text]);
    expect(warned({ cpu: "kvm64,phys-bits=41,flags=-pdpe1gb" })).toEqual([text]);
    expect(warned({ cpu: "kvm64,phys-bits=41,flags=+pdpe1gb" })).toEqual([]);
    expect(warned({ cpu: "kvm64,phys-bits=40" })).toEqual([]);
    expect(warned({ cpu: "host,phys-bits=host" })).toEqual([]);
    expect(warned({ cpu: "kvm64,phys-bits=host" }, { physBits: 39 })).toEqual([]);
    expect(line({ cpu: "kvm64,phys-bits=48" }).warnings).toEqual([]);
  });

  test("that name nesting twice mean the shorthand", () => {
    const customCpuModels = { both: { flags: "+vmx;-nested-virt" } };
    const { cpu: text, warnings } = line({ cpu: "custom-both" }, { customCpuModels });
    expect(text).toContain("-vmx");
    expect(warnings).toContain("warning: CPU flag 'nested-virt' overrides 'vmx'");
  });
});

describe("NICs", () => {
  const nic = (text: string, config: Config = {}) =>
    line({ net0: text, ...config })
      .all("-device")
      .at(-1) ?? "";

  test.each([
    ["", {}, true],
    [",host-tunnel=1", {}, false],
    ["", { machine: "pc-i440fx-11.0+pve1" }, true],
    ["", { machine: "pc-i440fx-11.0" }, false],
    [",host-tunnel=0", { machine: "pc-i440fx-10.2" }, true],
    [",host-tunnel=1", { machine: "pc-i440fx-10.2" }, false],
    [",host-tunnel=0", { machine: "pc-i440fx-10.1" }, false],
  ] as [string, Config, boolean][])("virtio%s with %o turns tunnel offload off: %s", (text, config, off) => {
    expect(nic(`virtio=${mac}${text}`, config).endsWith("host_tunnel=off")).toBe(off);
    expect(nic(`e1000=${mac}${text}`, config)).not.toContain("host_tunnel");
  });

  test("carry old boot code before the tunnel option, and below machine version 2.4", () => {
    expect(nic(`virtio=${mac}`, { machine: "pc-i440fx-11.0+pve1.pxe" })).toMatch(
      /romfile=pxe-virtio\.rom,host_tunnel=off$/,
    );
    expect(nic(`e1000=${mac}`, { machine: "pc-i440fx-2.3" })).toContain("romfile=pxe-e1000.rom");
    expect(nic(`e1000=${mac}`, { machine: "pc-i440fx-2.4" })).not.toContain("romfile");
  });

  test("on ISA have the address PVE writes, and none on our hosts", () => {
    expect(nic(`ne2k_isa=${mac}`)).toContain("bus=pci.0,addr=0x12");
    expect(sampleCommand({ net0: `ne2k_isa=${mac}` }).text).not.toContain("netdev=net0,bus=");
  });

  test("say why an MTU has no effect", () => {
    expect(line({ net0: `e1000=${mac},bridge=vmbr0,mtu=900` }).warnings).toEqual([
      "netdev net0: ignoring MTU '900', not using VirtIO",
    ]);
  });
});

describe("ARM guests", () => {
  test("have screens without VGA", () => {
    expect(line({ ...arm, vga: "virtio-gl" }).text).toContain("virtio-gpu-gl,id=vga,bus=pcie.0");
    expect(line({ ...arm, vga: "std" }).text).toContain("VGA,id=vga,bus=pcie.0");
  });

  test("enforce secure boot when keys are enrolled and the firmware can", () => {
    const code = (efidisk0: string, host: Partial<HostFacts> = {}) =>
      line({ ...arm, efidisk0 }, host).all("-blockdev")[0];
    expect(code("store:e.raw,efitype=4m")).toContain("AAVMF_CODE.fd");
    expect(code("store:e.raw,pre-enrolled-keys=1")).toContain("AAVMF_CODE.secboot.fd");
    const firmware = { "aarch64/default": { code: "/old.fd", vars: "/vars.fd", varsBytes: 1 } };
    expect(code("store:e.raw,pre-enrolled-keys=1", { firmware })).toContain("/old.fd");
  });

  test("have later buses behind bridges of the old kind", () => {
    const { all } = line({ ...arm, ostype: "l26", usb0: "host=1-1", rng0: "/dev/urandom" });
    expect(all("-device")).toContain("qemu-xhci,p2=15,p3=15,id=xhci,bus=pci.1,addr=0x1b");
    expect(all("-device")).toContain("pci-bridge,id=pci.1,chassis_nr=1,bus=pcie.0,addr=0x1e");
  });
});

describe("disks", () => {
  test("in chains of volumes need -blockdev", () => {
    const chained = (config: Config) =>
      qemuCommand({
        ...sampleInput(config, {}, { dialect: "pve" }),
        volumes: (file, use) => {
          const volume = sampleVolumes(file, use);
          const storage = { id: "store", type: "dir", content: ["images"], snapshotAsVolumeChain: true };
          return { ...volume, storage };
        },
      });
    expect(() => chained({ scsi0: "store:a.qcow2", machine: "pc-i440fx-9.2" })).toThrow(
      "storage for 'store:a.qcow2' is configured for snapshots as a volume chain - this requires QEMU machine version >= 10.0. See https://pve.proxmox.com/wiki/QEMU_Machine_Version_Upgrade",
    );
    expect(chained({ scsi0: "store:a.raw", machine: "pc-i440fx-9.2" }).argv).toContain("-drive");
    expect(chained({ scsi0: "store:a.qcow2", machine: "pc-i440fx-10.0" }).argv).toContain("-blockdev");
  });

  test("with a burst need no steady rate of requests, but a length needs its burst", () => {
    const limits = (text: string) => line({ scsi0: `store:a.raw,${text}` }).all("-object")[0] ?? "";
    expect(limits("iops_max=200")).toContain('"iops-total-max":200');
    expect(limits("iops_max_length=5")).toBe("");
    expect(limits("mbps_max=2")).toBe("");
    expect(limits("mbps=1,mbps_max=2,bps_max_length=3")).toContain('"bps-total-max-length":3');
  });

  test("for firmware on a path name their format", () => {
    const machine = "pc-i440fx-9.0";
    expect(() => line({ bios: "ovmf", efidisk0: "/dev/sdx1", machine })).toThrow(
      "efidisk format must be specified",
    );
    // -drive believes what it is told; only -blockdev compares it with the volume.
    const asked = { bios: "ovmf", efidisk0: "store:e.raw,format=qcow2" };
    expect(line({ ...asked, machine }).all("-drive")[1]).toContain("format=qcow2,file=/store/e.raw");
    expect(() => line(asked)).toThrow("'format=qcow2' option different from storage format 'raw'");
    expect(line({ bios: "ovmf", efidisk0: "/dev/sdx1,format=raw", machine }).all("-drive")[1]).toContain(
      "format=raw,file=/dev/sdx1,size=131072",
    );
  });
});

test("memory that does not divide has the digits PVE prints", () => {
  expect(line({ numa: "1", sockets: "3", memory: "1000" }).all("-object")[0]).toBe(
    "memory-backend-ram,id=ram-node0,size=333.333333333333M",
  );
});

test("snapshots below a template's image are opened as its drive says", () => {
  const blockdev = (scsi0: string) =>
    qemuCommand({
      ...sampleInput({ template: "1", scsi0 }, {}, { dialect: "pve" }),
      volumes: (file, use) => ({
        ...sampleVolumes(file, use),
        chain: [{ snapshot: "one", node: { driver: "file", filename: "/store/one" } }],
      }),
    }).argv.find((word) => word.includes('"backing"')) ?? "";
  expect(blockdev("store:a.qcow2")).toMatch(/"filename":"\/store\/one"[^}]*"read-only":false/);
  expect(blockdev("store:a.qcow2")).toMatch(/"filename":"\/store\/a\.qcow2"[^}]*"read-only":true/);
  expect(blockdev("store:a.qcow2,ro=1")).not.toContain('"read-only":false');
});
