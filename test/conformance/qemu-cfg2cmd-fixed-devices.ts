// The devices that PVE has in files of its own and our command lines name one by one. They are written down here once
// more, as PVE's files have them, so that a change of ours is noticed.

const USB = (bus: string, group: number, slot: string, ehci: string) => [
  `ich9-usb-ehci${group},id=${ehci}${bus},addr=${slot}.7,multifunction=on`,
  ...[0, 1, 2].map((index) => {
    const number = (group - 1) * 3 + index + 1;
    return `ich9-usb-uhci${number},id=uhci-${number}${bus},addr=${slot}.${index},multifunction=on,masterbus=${ehci}.0,firstport=${index * 2}`;
  }),
];
const ON_ROOT = ",bus=pcie.0";

const q35 = (port: string) => [
  ...USB(ON_ROOT, 1, "1d", "ehci"),
  ...USB(ON_ROOT, 2, "1a", "ehci-2"),
  "ich9-intel-hda,id=audio0,bus=pcie.0,addr=1b.0",
  ...[1, 2, 3, 4].map(
    (number) =>
      `${port.replace("ID", `id=ich9-pcie-port-${number}`)},multifunction=on,bus=pcie.0,addr=1c.${number - 1},port=${number},chassis=${number}`,
  ),
  "i82801b11-bridge,id=pcidmi,bus=pcie.0,addr=1e.0",
  ...[0, 1, 2, 3].map((bus) => `pci-bridge,id=pci.${bus},bus=pcidmi,addr=${bus + 1}.0,chassis_nr=${bus + 1}`),
];

const FILES: Readonly<Record<string, readonly string[]>> = {
  "pve-q35-4.0.cfg": q35("pcie-root-port,ID,x-speed=16,x-width=32"),
  "pve-q35.cfg": q35("ioh3420,ID"),
  "pve-usb.cfg": USB("", 1, "1d", "ehci"),
};

/** Puts the devices of a file in place of its name. */
export function fixedDevices(lines: readonly string[]): string[] {
  return lines.flatMap((line) => {
    const file = /^-readconfig .*\/([^/]+)$/.exec(line)?.[1];
    if (file === undefined) return [line];
    const devices = FILES[file];
    if (devices === undefined) throw new Error(`nobody here knows what is in ${file}`);
    return devices.map((each) => `-device ${each}`);
  });
}
