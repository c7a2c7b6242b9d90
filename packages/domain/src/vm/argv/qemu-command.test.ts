import { describe, expect, test } from "vitest";
import { sampleCommand } from "./testing/sample-host.ts";

const pve = { dialect: "pve" } as const;

describe("the frame of a guest on our hosts", () => {
  test("has name, uuid, sandbox and three monitors, and nothing of PVE's", () => {
    const { argv, text, all } = sampleCommand({
      name: "a,b",
      smbios1: "uuid=7b10d7af-b932-4c66-b2c3-3996152ec465",
    });
    expect(argv.slice(0, 5)).toEqual([
      "/usr/bin/qemu-system-x86_64",
      "-name",
      "guest=a,,b,debug-threads=on",
      "-uuid",
      "7b10d7af-b932-4c66-b2c3-3996152ec465",
    ]);
    expect(all("-sandbox")).toEqual([
      "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    ]);
    expect(all("-mon")).toHaveLength(3);
    expect(all("-vnc")).toEqual(["unix:/run/vm100/vnc"]);
    expect(argv).toContain("-no-user-config");
    for (const foreign of ["-id", "-daemonize", "-pidfile", "+pve", "-readconfig", "splash"])
      expect(text).not.toContain(foreign);
  });

  test("can start paused, wait for a migration, end with its guest and ask for a VNC password", () => {
    const { argv, one } = sampleCommand(
      {},
      {},
      { paused: true, incoming: true, exitOnShutdown: true, vncPassword: true, uuid: "u" },
    );
    expect(argv).toContain("-S");
    expect(argv).not.toContain("-no-shutdown");
    expect(one("-uuid")).toBe("u");
    expect(one("-incoming")).toBe("defer");
    expect(one("-vnc")).toBe("unix:/run/vm100/vnc,password=on");
  });

  test("decodes SMBIOS values and doubles their commas", () => {
    // "Acme, Inc." and "ü"
    const text =
      "uuid=7b10d7af-b932-4c66-b2c3-3996152ec465,manufacturer=QWNtZSwgSW5jLg==,product=w7w=,base64=1";
    expect(sampleCommand({ smbios1: text }).one("-smbios")).toBe(
      "type=1,manufacturer=Acme,, Inc.,product=ü,uuid=7b10d7af-b932-4c66-b2c3-3996152ec465",
    );
    expect(sampleCommand({ smbios1: "serial=abc,family=x,base64=0" }).one("-smbios")).toBe(
      "type=1,family=x,serial=abc",
    );
    expect(sampleCommand({ smbios1: "serial=/w==,base64=1" }).one("-smbios")).toBe("type=1,serial=\u00ff");
  });

  test("has a boot menu where somebody can see it", () => {
    const boot = (vga: string) => sampleCommand({ vga, serial0: "socket" }).one("-boot");
    expect(boot("std")).toBe("menu=on,strict=on,reboot-timeout=1000");
    expect(boot("qxl")).toBe("menu=on,strict=on,reboot-timeout=1000");
    expect(boot("none")).toBe("menu=off,strict=on,reboot-timeout=1000");
    expect(boot("serial0")).toBe("menu=off,strict=on,reboot-timeout=1000");
  });

  test("passes custom arguments as a shell would split them", () => {
    const { argv } = sampleCommand({ args: `-a 'b c' "d \\" e" f\\ g ''` });
    expect(argv.slice(-5)).toEqual(["-a", "b c", 'd " e', "f g", ""]);
    expect(() => sampleCommand({ args: "-a 'b" })).toThrow("no closing '");
  });
});

describe("machine types", () => {
  test("of q35 before 4.0 have the root ports of their time", () => {
    const ports = (machine: string) =>
      sampleCommand({ machine })
        .all("-device")
        .filter((each) => each.includes("id=ich9-pcie-port-"));
    expect(ports("pc-q35-3.1")).toHaveLength(4);
    expect(ports("pc-q35-3.1")[0]).toBe(
      "ioh3420,id=ich9-pcie-port-1,multifunction=on,bus=pcie.0,addr=1c.0,port=1,chassis=1",
    );
    expect(ports("pc-q35-4.0")[0]).toBe(
      "pcie-root-port,id=ich9-pcie-port-1,x-speed=16,x-width=32,multifunction=on,bus=pcie.0,addr=1c.0,port=1,chassis=1",
    );
  });

  test("of another architecture are emulated, and an x86 CPU that demands KVM is refused", () => {
    const arm = sampleCommand({ arch: "aarch64", kvm: "1" });
    expect(arm.accelerator).toBe("tcg");
    expect(arm.notes).toEqual([
      "KVM on this x86_64 node runs no aarch64 guests: the guest is emulated by TCG",
    ]);
    expect(() => sampleCommand({ arch: "x86_64", kvm: "1" }, { arch: "aarch64" })).toThrow(
      "kvm is 1, but KVM on node 'node1' (aarch64) runs no x86_64 guests: set kvm to 0 to emulate it",
    );
    expect(sampleCommand({ arch: "x86_64" }, { arch: "aarch64" }).accelerator).toBe("tcg");
  });

  test("of a saved state change nothing else", () => {
    const values = {
      net0: "virtio=BC:24:11:00:00:01,bridge=vmbr0",
      scsi0: "store:a.raw",
      meta: "creation-qemu=7.2.22",
    };
    const host = { qemuVersion: "7.2.22" };
    const netDescriptors = { net0: { tap: [10] } };
    const fresh = sampleCommand(values, host, { machineVersion: "7.2", netDescriptors });
    const { machine } = fresh;
    expect(sampleCommand(values, host, { machineVersion: "7.2", netDescriptors, machine }).text).toBe(
      fresh.text,
    );
    expect(fresh.text).toContain("host_mtu=1500");
  });

  test("are pinned to the VM's version, or to the host's newest without one", () => {
    expect(sampleCommand({}, { qemuVersion: "7.2.22" }).machine).toBe("pc-i440fx-7.2");
    expect(sampleCommand({ machine: "q35" }, {}, { machineVersion: "7.2" }).machine).toBe("pc-q35-7.2");
    expect(sampleCommand({ machine: "pc-q35-8.1+pve0" }).machine).toBe("pc-q35-8.1");
    expect(sampleCommand({ ostype: "win10" }).machine).toBe("pc-i440fx-5.1");
    expect(sampleCommand({ ostype: "win10", meta: "creation-qemu=9.2.0" }).machine).toBe("pc-i440fx-9.2");
    expect(
      sampleCommand({ ostype: "win10", meta: "creation-qemu=11.0.1" }, { qemuVersion: "10.0.2" }).machine,
    ).toBe("pc-i440fx-10.0");
    expect(sampleCommand({}, {}, { machine: "pc-i440fx-9.0" }).machine).toBe("pc-i440fx-9.0");
  });

  test("are refused when QEMU is too old for them, in PVE's words", () => {
    expect(() => sampleCommand({ machine: "pc-q35-9.2" }, { qemuVersion: "7.2.22" })).toThrow(
      "Installed QEMU version '7.2.22' is too old to run machine type 'pc-q35-9.2+pve0', please upgrade node 'node1'",
    );
    expect(() => sampleCommand({ machine: "pc-q35-9.2+pve7" })).toThrow("max feature level for 9.2 is pve1");
    expect(() => sampleCommand({}, { qemuVersion: "5.2.0" })).toThrow("Detected old QEMU binary ('5.2.0'");
    expect(() => sampleCommand({}, { qemuVersion: "0" })).toThrow("QEMU cannot be run on node");
    expect(sampleCommand({ machine: "pc-q35-9.2" }, { qemuVersion: "9.1.93" }).machine).toBe("pc-q35-9.2");
    expect(() => sampleCommand({ machine: "pc-q35-2.4" }, { machineTypes: new Set(["pc-q35-9.2"]) })).toThrow(
      "machine type 'pc-q35-2.4' is not known to QEMU 11.0.0 on node 'node1'",
    );
  });

  test("carry the vIOMMU", () => {
    const devices = sampleCommand({ machine: "q35,viommu=intel,aw-bits=48" }).all("-device");
    expect(devices[0]).toBe("intel-iommu,intremap=on,caching-mode=on,aw-bits=48");
    expect(() => sampleCommand({ machine: "q35,viommu=intel,aw-bits=40" })).toThrow("only 39 or 48 bits");
    const old = sampleCommand({ machine: "q35,viommu=virtio,aw-bits=40" }, { qemuVersion: "7.2.0" });
    expect(old.all("-device")).toContain("virtio-iommu-pci");
  });

  test("have q35's fixed devices spelled out", () => {
    const devices = sampleCommand({ machine: "q35", scsi20: "store:a.raw" }).all("-device");
    expect(devices).toContain("ich9-usb-ehci1,id=ehci,bus=pcie.0,addr=1d.7,multifunction=on");
    expect(devices).toContain("pci-bridge,id=pci.0,bus=pcidmi,addr=1.0,chassis_nr=1");
    expect(devices).toContain("pci-bridge,id=pci.4,chassis_nr=4,bus=pci.1,addr=0x1c");
  });

  test("old ones keep their sleep states, new ones only on request", () => {
    expect(sampleCommand({ machine: "pc-i440fx-8.0" }).text).not.toContain("disable_s3");
    expect(sampleCommand({ machine: "pc,enable-s3=1" }).all("-global")).toEqual(["PIIX4_PM.disable_s4=1"]);
  });
});

describe("accelerators", () => {
  test("fall back to TCG with a note, and host becomes max", () => {
    const { accelerator, cpu, notes, one } = sampleCommand(
      { cpu: "host", ostype: "win11" },
      { kvmUsable: false },
    );
    expect([accelerator, cpu]).toEqual(["tcg", "max,-cet-ibt,-cet-ss"]);
    expect(notes).toContain("CPU type 'host' needs KVM: the guest sees 'max'");
    expect(one("-accel")).toBe("tcg");
  });

  test("are what works: kvm=1 is a wish, kvm=0 an order", () => {
    const { accelerator, notes } = sampleCommand({ kvm: "1" }, { kvmUsable: false });
    expect(accelerator).toBe("tcg");
    expect(notes).toContain("KVM does not work on this node: the guest is emulated by TCG and runs slowly");
    expect(sampleCommand({ kvm: "0" }).cpu).toBe("qemu64");
  });
});

describe("other hardware", () => {
  test("serial, parallel, sound, RNG, watchdog, shared memory and directories have PVE's places", () => {
    const { text } = sampleCommand({
      serial0: "socket",
      serial1: "/dev/ttyS0",
      parallel0: "/dev/usb/lp0",
      audio0: "device=ich9-intel-hda,driver=spice",
      rng0: "source=/dev/urandom,max_bytes=0",
      watchdog: "model=i6300esb,action=reset",
      ivshmem: "size=32,name=x",
      virtiofs0: "share",
      agent: "1,type=isa",
      keyboard: "de",
      reboot: "0",
      acpi: "0",
    });
    for (const part of [
      "socket,id=serial0,path=/run/vm100/serial0,server=on,wait=off -device isa-serial,chardev=serial0",
      "-chardev serial,id=serial1,path=/dev/ttyS0",
      "-chardev serial,id=parallel0,path=/dev/usb/lp0",
      "hda-duplex,id=audiodev0-codec1,bus=audiodev0.0,cad=1,audiodev=spice-backend0",
      "virtio-rng-pci,rng=rng0,bus=pci.1,addr=0x1d",
      "-device i6300esb,bus=pci.0,addr=0x4 -watchdog-action reset",
      "ivshmem-plain,memdev=ivshmem,bus=pci.2,addr=0xb ",
      "vhost-user-fs-pci,queue-size=1024,chardev=virtiofs0,tag=share",
      "memory-backend=virtiofs-mem",
      "isa-serial,chardev=qga0",
      "-k de",
      "-no-reboot",
      "acpi=off",
    ])
      expect(text).toContain(part);
  });

  test("what the host lacks is refused or left out", () => {
    expect(() => sampleCommand({ serial0: "/dev/ttyS9" })).toThrow("no such serial device");
    expect(() => sampleCommand({ parallel0: "/dev/lp9" })).toThrow("no such parallel device");
    expect(() => sampleCommand({ virtiofs0: "nowhere" })).toThrow("Directory mapping not found");
    expect(() => sampleCommand({ virtiofs0: "share,expose-acl=1", ostype: "win11" })).toThrow("disable ACLs");
    expect(() => sampleCommand({ cores: "65" })).toThrow("MAX 64 vcpus allowed per VM on this node");
    const { spice: _, ...noSpice } = { spice: undefined };
    expect(sampleCommand({ audio0: "device=AC97" }, noSpice).text).toContain("audiodev=spice-backend0");
    expect(sampleCommand({ agent: "0", balloon: "0" }).text).not.toContain("qga0");
  });

  test("CPUs can be plugged later", () => {
    const { all } = sampleCommand({ hotplug: "cpu", cores: "2", sockets: "2", vcpus: "3" });
    expect(all("-smp")).toEqual(["1,sockets=2,cores=2,maxcpus=4"]);
    expect(all("-device").slice(0, 2)).toEqual([
      "kvm64-x86_64-cpu,id=cpu2,socket-id=0,core-id=1,thread-id=0",
      "kvm64-x86_64-cpu,id=cpu3,socket-id=1,core-id=0,thread-id=0",
    ]);
  });

  test("ARM guests have their own buses, UART and no sleep states", () => {
    const { text, cpu } = sampleCommand({ arch: "aarch64", serial0: "socket", scsi0: "store:a.raw" });
    expect(cpu).toBe("max");
    expect(text).toContain("-serial chardev:serial0");
    expect(text).toContain("usb-kbd,id=keyboard,bus=ehci.0,port=2");
    expect(text).toContain("virtio-gpu,id=vga,bus=pcie.0,addr=0x2");
    expect(text).not.toContain("disable_s3");
    expect(() => sampleCommand({ arch: "aarch64", hotplug: "cpu", cores: "2" })).toThrow("non x86_64");
  });

  test("time follows the guest system", () => {
    expect(sampleCommand({ ostype: "win10" }).one("-rtc")).toBe("driftfix=slew,base=localtime");
    expect(sampleCommand({ ostype: "win10", acpi: "0", localtime: "0" }).all("-rtc")).toEqual([]);
    expect(sampleCommand({ startdate: "2020-01-01" }).one("-rtc")).toBe("base=2020-01-01");
    expect(sampleCommand({ ostype: "l26" }).one("-machine")).toContain("hpet=off");
  });

  test("templates start with nothing but their disks, read-only", () => {
    const { text, one } = sampleCommand({
      template: "1",
      cores: "4",
      scsi0: "store:a.raw",
      sata0: "store:b.raw",
      tpmstate0: "store:t.raw",
    });
    expect(text).toContain('"read-only":true');
    expect(text).toContain("ide-cd,bus=ahci0.0,drive=drive-sata0");
    expect(text).not.toContain("tpm");
    expect(one("-smp")).toBe("1,sockets=1,cores=1,maxcpus=1");
    expect(one("-vga")).toBe("none");
  });
});

describe("PVE's own form", () => {
  test("keeps -drive, -readconfig and the old network code for old machine types", () => {
    const { text } = sampleCommand(
      {
        machine: "pc-q35-5.1.pxe",
        affinity: "0-3",
        net0: "e1000=AA:BB:CC:DD:EE:FF,bridge=vmbr0",
        scsi0: "store:a.qcow2,mbps=10,ro=1,snapshot=0,rerror=report",
        ide0: "isos:iso/x.iso,media=cdrom",
        bios: "ovmf",
        efidisk0: "store:e.raw",
      },
      {},
      pve,
    );
    expect(text).toContain("/usr/bin/taskset --cpu-list --all-tasks 0-3 /usr/bin/kvm");
    expect(text).toContain("throttling.bps-total=10485760");
    expect(text).toContain("readonly=on");
    expect(text).toContain("romfile=pxe-e1000.rom");
    expect(text).toContain("-readconfig /usr/share/qemu-server/pve-q35-4.0.cfg");
    expect(text).toContain("if=pflash,unit=1,id=drive-efidisk0,format=raw,file=/store/e.raw,size=131072");
    expect(text).toContain("file=/isos/iso/x.iso,if=none,id=drive-ide0,media=cdrom,format=raw,aio=io_uring");
  });

  test("reads saved RAM with PVE's option and has a QEMU of the right name", () => {
    const { argv } = sampleCommand(
      { vmstate: "store:state.raw", arch: "aarch64" },
      { qemuVersion: "9.0.0" },
      pve,
    );
    expect(argv[0]).toBe("/usr/bin/qemu-system-aarch64");
    expect(argv).toContain("-loadstate");
    expect(argv.join(" ")).toContain("reconnect=5");
  });

  test("makes a temporary variable store without an EFI disk", () => {
    const old = sampleCommand({ machine: "pc-i440fx-4.1+pve2", bios: "ovmf" }, {}, pve);
    expect(old.text).toContain("format=raw,file=/run/vm100/efivars.fd,size=131072");
    expect(old.machine).toBe("pc-i440fx-4.1+pve2");
    expect(old.warnings).toContain("no efidisk configured! Using temporary efivars disk.");
  });
});

describe("microvm", () => {
  const options = { microvm: true } as const;

  test("has virtio devices only, and only when asked for", () => {
    const { text, machine } = sampleCommand(
      { virtio0: "store:a.raw", net0: "virtio=AA:BB:CC:DD:EE:FF", serial0: "socket" },
      {},
      { ...options, paused: true, incoming: true },
    );
    expect(machine).toBe("microvm");
    expect(text).toContain("virtio-blk-device,drive=drive-virtio0,id=virtio0");
    expect(text).toContain("virtio-net-device,mac=AA:BB:CC:DD:EE:FF,netdev=net0,id=net0");
    expect(text).toContain("-accel kvm");
    expect(() => sampleCommand({ scsi0: "store:a.raw" }, {}, options)).toThrow("only virtio disks");
    expect(() => sampleCommand({ net0: "e1000" }, {}, options)).toThrow("only virtio network cards");
    const booted = sampleCommand({}, {}, { microvm: { kernel: "/k", initrd: "/i", cmdline: "quiet" } });
    expect(booted.text).toContain("-kernel /k -initrd /i -append quiet");
    expect(sampleCommand({}, {}, { microvm: { kernel: "/k" } }).text).toContain(
      "-kernel /k -append console=ttyS0",
    );
    expect(() => sampleCommand({}, {}, { ...options, ...pve })).toThrow("microvm needs");
    expect(() => sampleCommand({ cores: "99" }, {}, options)).toThrow("MAX 64");
  });
});
