import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import { describe, expect, test } from "vitest";
import { requireDrive } from "../../config/drive.ts";
import { readVmProperty } from "../../config/vm-properties.ts";
import { driveNodes } from "../block/block-node.ts";
import { driveNodeArguments, plugCpu, plugDrive, plugMemory, plugNic, plugUsb } from "./hotplug-arguments.ts";
import { mdevUuid } from "./host-pci.ts";
import { maxMemoryMiB, memoryModules } from "../processor/memory.ts";
import { tapNetdevArguments } from "./network.ts";
import { pcieAddress } from "./pci-address.ts";
import { sampleCommand, sampleHost, sampleInput, sampleVolumes, fakeHash } from "../testing/sample-host.ts";

const pve = { dialect: "pve" } as const;

describe("disks", () => {
  test("become throttle, format and file nodes with one cache mode", () => {
    const blockdev = sampleCommand({ scsi0: "store:a.qcow2,cache=unsafe,discard=on,mbps_rd=1.5" }).one(
      "-blockdev",
    );
    const node = JSON.parse(blockdev) as Record<string, Record<string, unknown>>;
    expect(node["driver"]).toBe("throttle");
    expect(node["file"]?.["cache"]).toEqual({ direct: false, "no-flush": true });
    expect(node["file"]?.["driver"]).toBe("qcow2");
    expect(sampleCommand({ scsi0: "store:a.raw,mbps_rd=1.5,iops=100,iops_max=200" }).all("-object")[0]).toBe(
      '{"id":"throttle-drive-scsi0","limits":{"bps-read":1572864,"iops-total":100,"iops-total-max":200},"qom-type":"throttle-group"}',
    );
  });

  test("use io_uring only where host and storage bear it", () => {
    const aio = (config: string, host = {}) =>
      /"aio":"(\w+)"/.exec(sampleCommand({ scsi0: config }, host).one("-blockdev"))?.[1];
    expect(aio("store:a.raw")).toBe("io_uring");
    expect(aio("store:a.raw", { ioUring: false })).toBe("native");
    expect(aio("store:a.raw,aio=io_uring", { ioUring: false })).toBe("native");
    expect(aio("lvm:a.raw")).toBe("native");
    expect(aio("lvm:a.raw,cache=writeback")).toBe("threads");
    expect(aio("store:a.raw,aio=threads")).toBe("threads");
  });

  test("on btrfs keep the page cache", () => {
    expect(sampleCommand({ scsi0: "btrfs:a.raw" }).one("-blockdev")).toContain('"direct":false');
  });

  test("show serial, model, wwn, ssd and error policy", () => {
    const devices = sampleCommand({
      ide0: "store:a.raw,model=My%20Disk,serial=a%2Cb,ssd=1,werror=stop,rerror=ignore",
      scsi0: "store:b.raw,wwn=0x5000c50015ea71ad,ssd=1,vendor=ACME,product=Disk",
      virtio7: "store:c.raw,iothread=1",
      scsihw: "virtio-scsi-pci",
    }).all("-device");
    expect(devices).toContain(
      "ide-hd,bus=ide.0,unit=0,drive=drive-ide0,id=ide0,model=My Disk,rotation_rate=1,serial=a,,b,write-cache=on,rerror=ignore,werror=stop",
    );
    expect(devices).toContain(
      "scsi-hd,bus=scsihw0.0,channel=0,scsi-id=0,lun=0,drive=drive-scsi0,id=scsi0,device_id=drive-scsi0,rotation_rate=1,wwn=0x5000c50015ea71ad,vendor=ACME,product=Disk,write-cache=on",
    );
    expect(devices).toContain(
      "virtio-blk-pci,drive=drive-virtio7,id=virtio7,bus=pci.2,addr=0x2,iothread=iothread-virtio7,write-cache=on",
    );
  });

  test("on virtio-scsi-single have a controller, queues and a thread each", () => {
    const { all } = sampleCommand({ scsi2: "store:a.raw,iothread=1,queues=4", scsihw: "virtio-scsi-single" });
    expect(all("-object")[0]).toBe("iothread,id=iothread-virtioscsi2");
    expect(all("-device")).toContain(
      "virtio-scsi-pci,id=virtioscsi2,bus=pci.3,addr=0x3,iothread=iothread-virtioscsi2,num_queues=4",
    );
  });

  test("warn of a thread that cannot be, and are limited on old machines", () => {
    expect(sampleCommand({ scsi0: "store:a.raw,iothread=1" }).warnings[0]).toContain(
      "iothread is only valid",
    );
    expect(() => sampleCommand({ scsi14: "store:a.raw", machine: "pc-i440fx-4.1" })).toThrow(
      "scsi14: machine version 4.1~pve2",
    );
    expect(() => sampleCommand({ scsi0: "store:a.raw,snapshot=1" }, {}, pve)).toThrow("'snapshot' option");
    expect(() => sampleCommand({ scsi0: "store:a.raw,format=qcow2" })).toThrow(
      "'format=qcow2' option different from storage format 'raw'",
    );
    expect(() => sampleCommand({ scsi0: "isos:a.raw" })).toThrow(
      "storage 'isos' does not support content-type 'images'",
    );
  });

  test("that no storage looks after are what they say they are", () => {
    expect(sampleCommand({ scsi0: "/tmp/x,format=qcow2" }).one("-blockdev")).toContain('"driver":"qcow2"');
    expect(sampleCommand({ scsi0: "/tmp/x" }).one("-blockdev")).toContain('"driver":"raw"');
  });

  test("of the host can be passed through as SCSI devices", () => {
    const context = {
      sha256Hex: fakeHash,
      ioUring: true,
      discardNoUnref: true,
      volumes: (file: string, drive: Parameters<typeof sampleVolumes>[1]) => ({
        ...sampleVolumes(file, drive),
        scsi: "tape" as const,
      }),
    };
    const { blockdev } = driveNodes(context, "scsi0", requireDrive("scsi0", "/dev/st0"));
    expect(blockdev["driver"]).toBe("raw");
    expect(blockdev["node-name"]).toBe("drive-scsi0");
    const input = { ...sampleInput({}), volumes: context.volumes };
    const plan = plugDrive(input, "scsi0", requireDrive("scsi0", "/dev/st0"), { controllers: new Set() });
    expect(plan.steps.at(-1)?.arguments["driver"]).toBe("scsi-generic");
  });

  test("with snapshots as a chain of volumes list the whole chain", () => {
    const context = {
      sha256Hex: fakeHash,
      ioUring: true,
      discardNoUnref: true,
      volumes: () => ({
        node: { driver: "file", filename: "/c" },
        format: "qcow2",
        contentType: "images" as const,
        storage: { id: "s", type: "dir", content: ["images"], snapshotAsVolumeChain: true },
        chain: [
          { snapshot: "s2", node: { driver: "file", filename: "/s2" } },
          { snapshot: "s1", node: { driver: "file", filename: "/s1" } },
        ],
      }),
    };
    const text = canonicalJson(driveNodes(context, "scsi0", requireDrive("scsi0", "store:c.qcow2")).blockdev);
    expect(text.match(/"filename":"[^"]+"/g)).toEqual([
      '"filename":"/s1"',
      '"filename":"/s2"',
      '"filename":"/c"',
    ]);
    expect(text.match(/discard-no-unref/g)).toHaveLength(3);
  });
});

describe("firmware", () => {
  test("is chosen by EFI type, keys and machine", () => {
    const code = (config: Record<string, string>) =>
      /"filename":"\/fw\/(OVMF[^"]+)"/.exec(sampleCommand({ bios: "ovmf", ...config }).one("-blockdev"))?.[1];
    expect(code({ efidisk0: "store:e.raw" })).toBe("OVMF_CODE.fd");
    expect(code({ efidisk0: "store:e.raw,efitype=4m" })).toBe("OVMF_CODE_4M.fd");
    expect(code({ efidisk0: "store:e.raw,efitype=4m,pre-enrolled-keys=1", machine: "q35" })).toBe(
      "OVMF_CODE_4M.secboot.fd",
    );
  });

  test("is refused for 32-bit CPUs and when it is not installed", () => {
    expect(() => sampleCommand({ bios: "ovmf", cpu: "kvm32" })).toThrow("not supported on 32-bit CPU types");
    expect(() => sampleCommand({ bios: "ovmf" }, { firmware: {} })).toThrow("not found");
    expect(() => sampleCommand({ bios: "ovmf", efidisk0: "/dev/vg/efi" })).toThrow(
      "efidisk format must be specified",
    );
  });
});

describe("confidential guests", () => {
  const sev = {
    cbitpos: 51,
    "reduced-phys-bits": 6,
    "sev-support": true,
    "sev-support-es": false,
    "sev-support-snp": false,
  };
  const capable = { hwCapabilities: { "amd-sev": sev, "intel-tdx": { "tdx-support": true } } };

  test("say what hardware they need", () => {
    expect(() => sampleCommand({ "amd-sev": "std" })).toThrow("Your CPU does not support AMD SEV.");
    expect(() => sampleCommand({ "amd-sev": "es", bios: "ovmf" }, capable)).toThrow("AMD SEV-ES");
    expect(() => sampleCommand({ "amd-sev": "snp", bios: "ovmf" }, capable)).toThrow("AMD SEV-SNP");
    expect(() => sampleCommand({ "amd-sev": "std" }, capable)).toThrow("change the BIOS to OVMF");
    expect(() => sampleCommand({ "intel-tdx": "tdx,attestation=0", bios: "ovmf" })).toThrow("Intel TDX");
  });

  test("carry their policy", () => {
    const std = "std,no-debug=1,no-key-sharing=1,kernel-hashes=1";
    expect(sampleCommand({ "amd-sev": std, bios: "ovmf" }, capable).all("-object").at(-1)).toBe(
      "sev-guest,id=sev0,cbitpos=51,reduced-phys-bits=6,policy=0xb,kernel-hashes=on",
    );
    const snp = { hwCapabilities: { "amd-sev": { ...sev, "sev-support-snp": true } } };
    const { all, warnings } = sampleCommand(
      { "amd-sev": "snp,allow-smt=0,no-debug=1", bios: "ovmf", efidisk0: "store:e.raw" },
      snp,
    );
    expect(all("-object").at(-1)).toContain("policy=0x20000");
    expect(all("-bios")).toEqual(["/fw/OVMF_SEV_4M.fd"]);
    expect(warnings[0]).toContain("EFI disks are not supported with Confidential Virtual Machines");
  });

  test("with TDX can name a socket for attestation", () => {
    const tdx = "tdx,attestation=1,vsock-cid=2,vsock-port=4050";
    const { all, one } = sampleCommand({ "intel-tdx": tdx, bios: "ovmf" }, capable);
    expect(all("-object").at(-1)).toContain(
      '"quote-generation-socket":{"cid":"2","port":"4050","type":"vsock"}',
    );
    expect(one("-machine")).toContain("confidential-guest-support=tdx0,kernel-irqchip=split");
    expect(() => sampleCommand({ "intel-tdx": "tdx,attestation=1", bios: "ovmf" }, capable)).toThrow(
      "Missing",
    );
  });
});

describe("CPU flags", () => {
  test("of a VM win over the model's, and say so", () => {
    const host = { customCpuModels: { mine: { flags: "+aes;-kvm_pv_eoi", hidden: true, level: 20 } } };
    const { cpu, warnings } = sampleCommand({ cpu: "custom-mine,flags=-aes" }, host);
    expect(cpu).toBe("kvm64,level=20,-aes,enforce,kvm=off,-kvm_pv_eoi,+kvm_pv_unhalt,+lahf_lm,+sep");
    expect(warnings).toContain(
      "warning: CPU flag/setting '-aes' (manually set for VM) overwrites '+aes' (set by custom CPU model)",
    );
    expect(() => sampleCommand({ cpu: "custom-none" })).toThrow("Custom cputype 'none' not found");
  });

  test("follow vendor, system and virtualisation", () => {
    expect(sampleCommand({ cpu: "x86-64-v2-AES" }).cpu).toContain("qemu64,+aes,enforce");
    expect(sampleCommand({ cpu: "Opteron_G1", ostype: "solaris" }).cpu).toContain(
      "-rdtscp,vendor=AuthenticAMD,-x2apic",
    );
    expect(sampleCommand({ cpu: "host,flags=+nested-virt" }).cpu).toContain("+vmx");
    expect(sampleCommand({ cpu: "host,flags=+nested-virt" }, { cpuFlags: new Set() }).warnings[0]).toContain(
      "ignoring 'nested-virt'",
    );
    expect(sampleCommand({ cpu: "kvm64,hidden=1,phys-bits=40" }).cpu).toContain("kvm=off");
    expect(sampleCommand({ cpu: "host,hv-vendor-id=abc", ostype: "win10" }).cpu).toContain(
      "hv_vendor_id=abc",
    );
    expect(sampleCommand({ ostype: "w2k8", machine: "pc-i440fx-2.5" }).cpu).toContain("hv_spinlocks=0x1fff");
    expect(sampleCommand({ ostype: "win7", bios: "ovmf" }).cpu).not.toContain("hv_");
    expect(sampleCommand({ cpu: "host", ostype: "win11", machine: "pc-q35-10.0" }).cpu).toContain(
      "-vmx-mbec",
    );
    expect(
      sampleCommand({ cpu: "host", ostype: "win11", machine: "pc-q35-7.2" }, { qemuVersion: "7.2.0" }).cpu,
    ).not.toContain("cet");
  });
});

describe("memory", () => {
  test("can be spread over chosen nodes of the host", () => {
    const config = {
      numa: "1",
      memory: "1024",
      cores: "4",
      numa0: "cpus=0-1;3,hostnodes=0;2-3,memory=512,policy=bind",
      numa1: "cpus=2,memory=512",
    };
    expect(sampleCommand(config).all("-numa")).toEqual([
      "node,nodeid=0,cpus=0-1,cpus=3,memdev=ram-node0",
      "node,nodeid=1,cpus=2,memdev=ram-node1",
    ]);
    expect(sampleCommand(config).all("-object")[0]).toBe(
      "memory-backend-ram,id=ram-node0,size=512M,host-nodes=0,host-nodes=2-3,policy=bind",
    );
    expect(sampleCommand(config, {}, pve).all("-object")[0]).toContain("host-nodes=0,2-3,policy=bind");
  });

  test.each([
    [{ hugepages: "2" }, "numa needs to be enabled to use hugepages"],
    [{ hotplug: "memory" }, "NUMA needs to be enabled for memory hotplug"],
    [{ hotplug: "memory", numa: "1", memory: "512" }, "minimum memory must be 1024MB"],
    [
      { hotplug: "memory", numa: "1", memory: "2000" },
      "memory size (2000) must be aligned to 512 for hotplugging",
    ],
    [{ hotplug: "memory", numa: "1", memory: "9000000" }, "Total memory is bigger than 524288MB"],
    [{ hotplug: "memory", numa: "1", memory: "1024", numa0: "cpus=0,memory=1024" }, "custom NUMA topology"],
    [{ hotplug: "memory", numa: "1", memory: "1024", virtiofs0: "share" }, "in combination with virtio-fs"],
    [{ numa: "1", numa0: "cpus=0" }, "missing NUMA node0 memory value"],
    [{ numa: "1", numa0: "cpus=0,memory=100" }, "must be equal to vm static memory"],
    [{ numa: "1", numa0: "cpus=0,memory=512,hostnodes=9,policy=bind" }, "host NUMA node9 doesn't exist"],
    [{ numa: "1", numa0: "cpus=0,memory=512,hostnodes=0" }, "you need to define a policy for hostnode 0"],
    [{ numa: "1", hugepages: "2", numa0: "cpus=0,memory=512" }, "numa hostnodes need to be defined"],
    [{ numa: "1", hugepages: "2", sockets: "8", memory: "4096" }, "host NUMA node4 doesn't exist"],
    [{ numa: "1", hugepages: "2", memory: "513" }, "not a positive even integer"],
    [{ numa: "1", hugepages: "1024", memory: "1536" }, "not a multiple of the requested hugepages size 1024"],
    [{ numa: "1", numa0: "cpus=3-1,memory=512" }, "invalid range: 3-1 (1 < 3)"],
  ] as [Record<string, string>, string][])("%o is refused", (config, message) => {
    expect(() => sampleCommand(config)).toThrow(message);
  });

  test("on huge pages takes the size that fits", () => {
    const object = (config: Record<string, string>, host = {}) =>
      sampleCommand({ numa: "1", ...config }, host).all("-object")[0];
    expect(object({ hugepages: "any", memory: "2048" })).toContain(
      "mem-path=/run/vm100/huge1024,share=on,prealloc=yes",
    );
    expect(object({ hugepages: "any", memory: "512" })).toContain("huge2,");
    expect(() => object({ hugepages: "any", memory: "512" }, { hugepageSizesMiB: [1024] })).toThrow(
      "host only supports",
    );
    expect(() => object({ hugepages: "2", memory: "512" }, { hugepageSizesMiB: [1024] })).toThrow("of 2 MB");
    expect(() => object({ hugepages: "2", memory: "512" }, { hugepageSizesMiB: [] })).toThrow(
      "doesn't support hugepages",
    );
    expect(object({ virtiofs0: "share" })).toBe("memory-backend-memfd,id=virtiofs-mem0,size=512M,share=on");
  });

  test("comes in modules when it can be plugged", () => {
    expect(memoryModules({ sockets: "2", numa: "1" }, 2048).map(({ node }) => node)).toEqual([0, 1]);
    expect(memoryModules({ hugepages: "1024", sockets: "2" }, 4096).map(({ sizeMiB }) => sizeMiB)).toEqual([
      1024, 1024,
    ]);
    expect(maxMemoryMiB({ cpu: "host" }, sampleHost())).toBe(4 * 1024 * 1024);
    expect(maxMemoryMiB({ cpu: "kvm64,phys-bits=39" }, sampleHost())).toBe(2 ** 17);
    expect(maxMemoryMiB({ cpu: "kvm64,phys-bits=host" }, sampleHost())).toBe(4 * 1024 * 1024);
    const plan = plugMemory({ name: "dimm0", sizeMiB: 512, node: 0, totalMiB: 1536 });
    expect(plan.steps.map(({ execute }) => execute)).toEqual(["object-add", "device_add"]);
  });
});

describe("USB", () => {
  const usbMappings = { stick: [{ id: "1234:5678", path: "1-2" }], two: [{ id: "1:1" }, { id: "1:1" }] };

  test("devices sit on xHCI where the guest knows it", () => {
    const { all } = sampleCommand(
      {
        ostype: "l26",
        usb0: "host=1234:5678",
        usb1: "mapping=stick",
        usb2: "spice",
        boot: "order=usb0;usb2",
      },
      { usbMappings },
    );
    const devices = all("-device");
    expect(devices).toContain("qemu-xhci,p2=15,p3=15,id=xhci,bus=pci.1,addr=0x1b");
    expect(devices).toContain(
      "usb-host,bus=xhci.0,port=1,vendorid=0x1234,productid=0x5678,id=usb0,bootindex=100",
    );
    expect(devices).toContain("usb-host,bus=xhci.0,port=2,hostbus=1,hostport=2,id=usb1");
    expect(devices).toContain("usb-redir,chardev=usbredirchardev2,id=usbredirdev2,bus=xhci.0,port=3");
  });

  test("devices of older guests have EHCI", () => {
    expect(sampleCommand({ usb0: "host=1-1" }).all("-device")).toContain(
      "ich9-usb-ehci1,id=ehci,addr=1d.7,multifunction=on",
    );
    expect(sampleCommand({ usb0: "host=1-1" }, {}, pve).text).toContain("pve-usb.cfg");
    expect(sampleCommand({ usb0: "host=1-1,usb3=1" }).text).toContain("nec-usb-xhci,id=xhci");
  });

  test("mappings must name one device of this node", () => {
    expect(() => sampleCommand({ usb0: "mapping=none" })).toThrow("USB device mapping not found for 'none'");
    expect(() => sampleCommand({ usb0: "mapping=two" }, { usbMappings })).toThrow(
      "More than one USB mapping",
    );
  });

  test("redirection is off without SPICE", () => {
    const host = sampleHost();
    const { spice: _, ...without } = host;
    const input = { ...sampleInput({ usb0: "spice", ostype: "l26" }), host: without };
    expect(input.host).not.toHaveProperty("spice");
    const usb = readVmProperty("usb", "host=1-2.3", "usb3");
    expect(plugUsb(input, "usb3", usb, { xhci: true }).steps[0]?.arguments).toMatchObject({
      port: "4",
      hostport: "2.3",
    });
  });
});

describe("passed-through PCI devices", () => {
  const pciMappings = { nic: { paths: ["0000:02:00.0", "0000:03:00.0"], liveMigrationCapable: true } };

  test("with several functions keep them together", () => {
    const devices = sampleCommand({ hostpci0: "01:00,x-vga=1,pcie=1,romfile=a.bin", machine: "q35" }).all(
      "-device",
    );
    expect(devices).toContain(
      "vfio-pci,host=0000:01:00.0,id=hostpci0.0,bus=ich9-pcie-port-1,addr=0x0.0,x-vga=on,multifunction=on,romfile=/usr/share/kvm/a.bin",
    );
    expect(devices).toContain("vfio-pci,host=0000:01:00.1,id=hostpci0.1,bus=ich9-pcie-port-1,addr=0x0.1");
    expect(sampleCommand({ hostpci0: "01:00,x-vga=1" }).all("-vga")).toEqual(["none"]);
    expect(pcieAddress("hostpci3bus0")).toEqual({ bus: "pcie.0", addr: "0x13" });
    expect(pcieAddress("net0")).toBeUndefined();
    expect(mdevUuid(100, 1)).toBe("00000001-0000-0000-0000-000000000100");
  });

  test("from a mapping take the first free one", () => {
    const { pciDevices, text } = sampleCommand(
      { hostpci0: "mapping=nic" },
      { pciMappings, pciInUse: new Set(["0000:02:00.0"]) },
    );
    expect(pciDevices).toEqual({ hostpci0: ["0000:03:00.0"] });
    expect(text).toContain("enable-migration=on");
    expect(() =>
      sampleCommand(
        { hostpci0: "mapping=nic" },
        { pciMappings, pciInUse: new Set(["0000:02:00.0", "0000:03:00.0"]) },
      ),
    ).toThrow("could not find a free device for 'hostpci0'");
  });

  test.each([
    [{ hostpci0: "09:00.0" }, "no PCI device found for '09:00.0'"],
    [{ hostpci0: "01:00.0,pcie=1" }, "q35 machine model is not enabled"],
    [{ hostpci0: "mapping=none" }, "PCI device mapping not found for 'none'"],
    [{ hostpci0: "01:00,mdev=x" }, "cannot use mediated device with multifunction device"],
    [{ hostpci0: "02:00.0", hostpci1: "02:00.0" }, "device '0000:02:00.0' assigned more than once"],
    [{ hostpci0: "02:00.0,mapping=nic" }, "Cannot set both 'host' and 'mapping'."],
    [{ hostpci0: "rombar=1" }, "Either 'host' or 'mapping' must be set."],
    [{ hostpci0: "00:02.0,legacy-igd=1" }, "legacy IGD assignment requires VGA mode to be 'none'"],
    [{ hostpci0: "00:02.0,legacy-igd=1,rombar=0", vga: "none" }, "requires rombar to be enabled"],
    [{ hostpci0: "00:02.0,legacy-igd=1,x-vga=1", vga: "none" }, "not compatible with x-vga"],
    [{ hostpci0: "00:02.0,legacy-igd=1,mdev=x", vga: "none" }, "not compatible with mdev"],
    [{ hostpci0: "00:02.0,legacy-igd=1", vga: "none", machine: "q35" }, "not compatible with q35"],
    [{ hostpci0: "01:00,legacy-igd=1", vga: "none" }, "not compatible with multifunction devices"],
    [{ hostpci0: "mapping=nic,legacy-igd=1", vga: "none" }, "not compatible with alternate devices"],
    [{ hostpci0: "03:00.0,legacy-igd=1", vga: "none" }, "only works for devices on host bus 00:02.0"],
  ] as [Record<string, string>, string][])("%o is refused", (config, message) => {
    expect(() => sampleCommand(config, { pciMappings })).toThrow(message);
  });

  test("in legacy mode take the screen's slot", () => {
    const devices = sampleCommand({ hostpci0: "00:02.0,legacy-igd=1", vga: "none" }).all("-device");
    expect(devices).toContain("vfio-pci,host=0000:00:02.0,id=hostpci0,bus=pci.0,addr=0x2");
    expect(devices).toContain("pci-bridge,id=pci.2,chassis_nr=2,bus=pci.1,addr=0x1e");
  });
});

describe("network cards", () => {
  const mac = "AA:BB:CC:DD:EE:FF";
  const net = (text: string, host = {}, options = {}) =>
    sampleCommand({ net0: `virtio=${mac}${text}` }, host, {
      netDescriptors: { net0: { tap: [10] } },
      ...options,
    });

  test("take the descriptors they are given", () => {
    expect(net(",bridge=vmbr0").one("-netdev")).toBe("tap,id=net0,fd=10");
    const many = net(
      ",bridge=vmbr0,queues=2",
      {},
      { netDescriptors: { net0: { tap: [10, 11], vhost: [12, 13] } } },
    );
    expect(many.one("-netdev")).toBe("tap,id=net0,fds=10:11,vhost=on,vhostfds=12:13");
    expect(many.text).toContain("vectors=6,mq=on,packed=on");
    expect(net("").one("-netdev")).toBe("type=user,id=net0,hostname=vm100");
    expect(() => net(",bridge=vmbr0", {}, { netDescriptors: {} })).toThrow("net0: no tap device was opened");
    expect(tapNetdevArguments("net1", { tap: ["tap-net1"], vhost: ["vhost-net1"] })).toEqual({
      type: "tap",
      id: "net1",
      fd: "tap-net1",
      vhost: true,
      vhostfd: "vhost-net1",
    });
  });

  test("have an MTU the bridge can carry", () => {
    expect(net(",bridge=small").text).toContain("host_mtu=1400");
    expect(net(",bridge=small,mtu=1").text).toContain("host_mtu=1400");
    expect(net(",bridge=vmbr0", {}, { netHostMtu: { net0: 1000 } }).text).toContain("host_mtu=1000");
    expect(() => net(",bridge=small,mtu=1500")).toThrow(
      "netdev net0: MTU '1500' is bigger than the bridge MTU '1400' - adjust the MTU for the network device in the VM configuration, while ensuring that the bridge is configured as desired.",
    );
    expect(() => net(",bridge=small,mtu=500")).toThrow("smaller than the IP minimum MTU '576'");
    expect(net(",mtu=1300").warnings).toEqual(["netdev net0: ignoring MTU '1300', no bridge configured"]);
    const incoming = net(",bridge=vmbr0,mtu=1300", {}, { netHostMtu: { net0: 0 } });
    expect(incoming.text).not.toContain("host_mtu");
    expect(incoming.warnings).toEqual([
      "netdev net0: ignoring MTU '1300', not used on the source side according to migration parameters",
    ]);
  });

  test("leave out what an older QEMU does not know", () => {
    const { text } = net(",bridge=vmbr0", { qemuVersion: "7.2.0", netBootRoms: false });
    expect(text).not.toContain("host_tunnel");
    expect(text).toContain("romfile=");
  });
});

describe("screens", () => {
  test.each([
    ["cirrus", "cirrus-vga,id=vga,bus=pci.0,addr=0x2"],
    ["vmware,memory=32", "vmware-svga,id=vga,vgamem_mb=32,bus=pci.0,addr=0x2"],
    ["virtio,memory=64", "virtio-vga,id=vga,max_hostmem=67108864,bus=pci.0,addr=0x2"],
    ["virtio-gl", "virtio-vga-gl,id=vga,bus=pci.0,addr=0x2"],
    [
      "qxl,memory=32",
      "qxl-vga,id=vga,vgamem_mb=32,ram_size_mb=128,vram_size_mb=64,max_outputs=4,bus=pci.0,addr=0x2",
    ],
  ])("%s is a card", (vga, device) => {
    expect(sampleCommand({ vga }).all("-device")).toContain(device);
  });

  test("of QXL are many cards for Windows and much memory for others", () => {
    expect(sampleCommand({ vga: "qxl2", ostype: "win10" }).all("-device")).toContain(
      "qxl,id=vga1,ram_size=67108864,vram_size=33554432,bus=pci.0,addr=0x18",
    );
    expect(sampleCommand({ vga: "qxl2" }).all("-global")).toContain("qxl-vga.ram_size=134217728");
    expect(sampleCommand({ vga: "qxl2,memory=16" }).all("-global")).toContain("qxl-vga.vram_size=67108864");
  });

  test("on a serial port need none", () => {
    const { text, one } = sampleCommand({ vga: "serial0", serial0: "socket" });
    expect(one("-display")).toBe("none");
    expect(one("-machine")).toContain("smm=off");
    expect(text).not.toContain("usb-tablet");
  });

  test("share the clipboard by VNC where they can", () => {
    expect(sampleCommand({ vga: "std,clipboard=vnc" }).text).toContain("qemu-vdagent");
    expect(() => sampleCommand({ vga: "none,clipboard=vnc" })).toThrow("not compatible with VNC clipboard");
    expect(() => sampleCommand({ vga: "virtio-gl" }, { renderNode: false })).toThrow("no DRM render node");
  });

  test("are served by SPICE on a private socket with its extras", () => {
    const { one, text } = sampleCommand({
      vga: "qxl",
      spice_enhancements: "foldersharing=1,videostreaming=filter",
    });
    expect(one("-spice")).toBe("unix=on,addr=/run/vm100/spice,seamless-migration=on,streaming-video=filter");
    expect(text).toContain("org.spice-space.webdav.0");
  });

  test("of old Windows are Cirrus", () => {
    expect(sampleCommand({ ostype: "wxp" }).text).toContain("cirrus-vga");
    expect(sampleCommand({ ostype: "wxp", machine: "pc-i440fx-2.6" }).text).toContain("cirrus-vga");
  });
});

describe("plugging", () => {
  test("a SCSI disk brings its thread, controller, node and device, and takes them back in reverse", () => {
    const config = { scsihw: "virtio-scsi-single", scsi3: "store:a.raw,iothread=1" };
    const drive = requireDrive("scsi3", config.scsi3);
    const plan = plugDrive(sampleInput(config), "scsi3", drive, { controllers: new Set() });
    expect(plan.steps.map(({ execute }) => execute)).toEqual([
      "object-add",
      "device_add",
      "object-add",
      "blockdev-add",
      "device_add",
    ]);
    expect(plan.undo.map(({ execute }) => execute)).toEqual([
      "device_del",
      "blockdev-del",
      "object-del",
      "device_del",
      "object-del",
    ]);
    const again = plugDrive(sampleInput(config), "scsi3", drive, { controllers: new Set(["virtioscsi3"]) });
    expect(again.steps).toHaveLength(4);
    expect(driveNodeArguments(sampleInput(config), "scsi3", drive).blockdev["node-name"]).toBe("drive-scsi3");
  });

  test("gives the device of the next start, without its boot index", () => {
    const config = { virtio1: "store:a.raw", boot: "order=virtio1;net1", net1: "virtio=AA:BB:CC:DD:EE:FF" };
    const input = sampleInput(config);
    const disk = plugDrive(input, "virtio1", requireDrive("virtio1", config.virtio1), {
      controllers: new Set(),
    });
    expect(disk.steps.at(-1)?.arguments).toEqual({
      driver: "virtio-blk-pci",
      drive: "drive-virtio1",
      id: "virtio1",
      bus: "pci.0",
      addr: "0xb",
      "write-cache": "on",
    });
    const nic = plugNic(input, "net1", readVmProperty("net", config.net1, "net1"));
    expect(nic.steps[0]?.arguments).toMatchObject({
      driver: "virtio-net-pci",
      rx_queue_size: 1024,
      addr: "0x13",
    });
    expect(plugCpu(sampleInput({ cores: "4" }), 2).steps[0]?.arguments).toMatchObject({ "core-id": 1 });
    const empty = plugDrive(input, "ide2", requireDrive("ide2", "none,media=cdrom"), {
      controllers: new Set(),
    });
    expect(empty.steps).toHaveLength(1);
  });
});
