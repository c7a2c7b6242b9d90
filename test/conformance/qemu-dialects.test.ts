// Whatever a VM is made of, our guests have the hardware PVE's would have.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { Dialect, VolumeLookup } from "@gpve/domain/vm/argv/command-input.ts";
import type { HostFacts } from "@gpve/domain/vm/argv/host-facts.ts";
import { qemuCommand } from "@gpve/domain/vm/argv/qemu-command.ts";
import { planDescriptors } from "@gpve/domain/vm/argv/device/net-descriptors.ts";
import { sampleHost, sampleInput } from "@gpve/domain/vm/argv/testing/sample-host.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { isBeforeBlockdev, normalise, optionLines } from "./qemu-cfg2cmd-normalise.ts";

const MAC = "AA:BB:CC:DD:EE:FF";
const CHOICES: Readonly<Record<string, readonly string[]>> = {
  acpi: ["0"],
  affinity: ["1-2"],
  agent: ["1", "1,type=isa"],
  "allow-ksm": ["0"],
  "amd-sev": ["std", "es,no-debug=1"],
  arch: ["aarch64", "x86_64"],
  args: ["-foo 'a b'"],
  audio0: ["device=AC97", "device=intel-hda,driver=none", "device=ich9-intel-hda"],
  balloon: ["0"],
  bios: ["ovmf", "seabios"],
  boot: ["order=scsi0;net0", "cdn", "n"],
  cores: ["1", "4"],
  cpu: ["host", "max", "kvm64,hidden=1", "x86-64-v3", "Opteron_G3", "host,flags=+nested-virt;-pcid"],
  efidisk0: ["store:e.raw", "store:e.qcow2,efitype=4m,pre-enrolled-keys=1"],
  hostpci0: ["02:00.0", "01:00,x-vga=1", "03:00.0,pcie=1"],
  hostpci5: ["00:02.0,pcie=1,rombar=0"],
  hotplug: ["memory", "cpu", "1", "0"],
  hugepages: ["2", "1024", "any"],
  ide2: ["none,media=cdrom", "isos:iso/a.iso,media=cdrom", "isos:iso/a.iso"],
  ivshmem: ["size=8"],
  kvm: ["0", "1"],
  machine: [
    "q35",
    "pc",
    "pc-i440fx-2.3",
    "pc-i440fx-2.11",
    "pc-q35-3.1",
    "pc-i440fx-9.0",
    "pc-q35-10.1",
    "pc-q35-11.0+pve1",
    "pc-q35-11.0.pxe",
    "pc,enable-s3=1",
    "q35,viommu=intel",
    "q35,viommu=virtio,aw-bits=40",
  ],
  memory: ["512", "1024", "4096"],
  meta: ["creation-qemu=9.2.0", "creation-qemu=5.0"],
  net0: [
    `virtio=${MAC},bridge=vmbr0`,
    `virtio=${MAC},bridge=small,queues=4,mtu=1200,host-tunnel=1`,
    `ne2k_isa=${MAC}`,
  ],
  net1: [`e1000=${MAC},bridge=vmbr0,queues=4`, `virtio=${MAC},bridge=small,mtu=1`, `virtio=${MAC},queues=2`],
  net9: [`rtl8139=${MAC},bridge=vmbr0,mtu=900`],
  numa: ["1"],
  ostype: ["l26", "l24", "other", "solaris", "wxp", "w2k8", "win7", "win10", "win11"],
  parallel0: ["/dev/parport0"],
  rng0: ["source=/dev/urandom"],
  sata0: ["store:c.raw,ssd=1"],
  scsi0: [
    "store:a.qcow2,discard=on,iothread=1",
    "/dev/sdg,scsiblock=1,mbps=10",
    "store:a.raw,format=qcow2",
    "store:a.raw,format=raw,size=1000001K",
    "store:vm-100-cloudinit.qcow2,media=cdrom",
  ],
  scsi15: ["lvm:b.raw,cache=writethrough"],
  scsihw: ["lsi", "virtio-scsi-pci", "virtio-scsi-single", "megasas", "pvscsi"],
  serial0: ["socket", "/dev/ttyS0"],
  smbios1: ["uuid=7b10d7af-b932-4c66-b2c3-3996152ec465,serial=abc"],
  sockets: ["2", "3"],
  spice_enhancements: ["foldersharing=1,videostreaming=all"],
  startdate: ["2020-01-01"],
  tablet: ["0", "1"],
  template: ["1"],
  tpmstate0: ["store:t.raw,version=v2.0"],
  usb0: ["spice", "host=1-2", "host=0627:0001,usb3=1", "spice,usb3=1"],
  usb7: ["host=1-3"],
  vga: [
    "std,clipboard=vnc",
    "none",
    "serial0",
    "qxl",
    "qxl2",
    "qxl4,memory=32",
    "virtio",
    "virtio-gl",
    "cirrus",
  ],
  virtio0: ["store:d.raw,iothread=1,werror=stop,ro=1"],
  virtio1: ["store:s.qcow2,snapshot=1", "none"],
  virtiofs0: ["dirid=share"],
  vmstate: ["store:state.raw"],
  watchdog: ["model=i6300esb,action=reset", "model=ib700"],
};

// Few keys at a time: with many, nearly everything is refused.
const config: fc.Arbitrary<VmValues> = fc
  .uniqueArray(
    fc.constantFrom(
      ...Object.entries(CHOICES).flatMap(([key, values]) => values.map((value) => [key, value] as const)),
    ),
    { selector: ([key]) => key, maxLength: 12 },
  )
  .map((pairs) => Object.fromEntries(pairs));
const host: fc.Arbitrary<Partial<HostFacts>> = fc.constantFrom(
  {},
  { cpuVendor: "AuthenticAMD", cpuFlags: new Set(["svm"]) },
  { arch: "aarch64" as const },
  {
    hwCapabilities: {
      "amd-sev": {
        cbitpos: 51,
        "reduced-phys-bits": 6,
        "sev-support": true,
        "sev-support-es": true,
        "sev-support-snp": true,
      },
    },
  },
);
const isForeign = (values: VmValues, facts: Partial<HostFacts>): boolean =>
  values["template"] !== "1" && (values["arch"] ?? facts.arch ?? "x86_64") !== (facts.arch ?? "x86_64");

/** What PVE gives its QEMU, which then ends at once. */
const ONLY_WE_REFUSE = /^kvm is 1, but KVM on node|: a disk cannot be 'none'/;
/** What -drive can do and PVE's -blockdev cannot. */
const ONLY_PVE_REFUSES = /^'snapshot' option is not yet supported/;

function linesOf(values: VmValues, facts: Partial<HostFacts>, dialect: Dialect): readonly string[] | string {
  try {
    const { descriptors } = planDescriptors(values, sampleHost(facts), 32);
    const input = sampleInput(values, facts, { dialect, vncPassword: true, netDescriptors: descriptors });
    const volumes: VolumeLookup = (file, drive) =>
      dialect === "pve" || drive.drive.snapshot !== true
        ? input.volumes(file, drive)
        : { ...input.volumes(file, drive), overlay: { driver: "file", filename: "/overlay" } };
    return optionLines(qemuCommand({ ...input, volumes }).argv);
  } catch (error) {
    return messageOf(error);
  }
}

describe("a guest of ours and one of PVE's", () => {
  test("have the same hardware, or are refused for the same reason", () => {
    let made = 0;
    fc.assert(
      fc.property(config, host, (values, facts) => {
        const [pve, ours] = [linesOf(values, facts, "pve"), linesOf(values, facts, "stock")];
        if (typeof pve === "string" || typeof ours === "string") {
          if (typeof pve === "string" && ONLY_PVE_REFUSES.test(pve)) return;
          if (typeof ours === "string" && ONLY_WE_REFUSE.test(ours)) {
            expect(values["kvm"] === "1" || values["virtio1"] === "none").toBe(true);
            return;
          }
          expect(ours).toEqual(pve);
          return;
        }
        made++;
        const old = isBeforeBlockdev(pve, "11.0.0");
        const foreign = isForeign(values, facts);
        expect(normalise(ours, old, foreign)).toEqual(normalise(pve, old, foreign));
      }),
      { numRuns: Number(process.env["GPVE_DIALECT_RUNS"] ?? 2000) },
    );
    expect(made).toBeGreaterThan(500);
  });
});
