// What a node may be able to do, how each is tried, and what to do when it fails. Everything is tried without a
// trace: kernel objects are made inside a network namespace that ends with the probe.
import { given } from "@gpve/contracts/given.ts";
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Capability } from "@gpve/domain/node/runtime.ts";
import type { Exec } from "@gpve/kit/exec.ts";

export interface CapabilityProbe {
  readonly name: string;
  readonly argv: readonly [string, ...string[]];
  /** Debian package that brings the program. */
  readonly package: string;
  /** Reads the detail from the output; throwing or undefined means it does not work. */
  readonly read?: (output: string) => string | undefined;
  /** When the program is there but does not work. */
  readonly fix?: string;
}

const firstLine = (output: string): string | undefined => output.split("\n")[0]?.trim();
const inNamespace = (...argv: string[]): [string, ...string[]] => ["unshare", "--net", ...argv];
const kernelHas =
  (what: string) =>
  (output: string): string | undefined =>
    new RegExp(`^(nodev)?\\s*${what}\\b`, "m").test(output) ? `the kernel knows ${what}` : undefined;
const asRoot = "run the agent as root, on a kernel that has this (Debian's linux-image-amd64 does)";

export const capabilityProbes: readonly CapabilityProbe[] = [
  { name: "qemu-img", argv: ["qemu-img", "--version"], package: "qemu-utils" },
  { name: "swtpm", argv: ["swtpm", "--version"], package: "swtpm swtpm-tools" },
  { name: "iproute2", argv: ["ip", "-V"], package: "iproute2" },
  {
    name: "bridge",
    argv: inNamespace("ip", "link", "add", "gpvebr", "type", "bridge"),
    package: "iproute2",
    read: () => "a bridge could be made",
    fix: asRoot,
  },
  {
    name: "vlan-bridge",
    argv: inNamespace("ip", "link", "add", "gpvebr", "type", "bridge", "vlan_filtering", "1"),
    package: "iproute2",
    read: () => "a VLAN-aware bridge could be made",
    fix: asRoot,
  },
  {
    name: "tap",
    argv: inNamespace("ip", "tuntap", "add", "dev", "gpvetap", "mode", "tap"),
    package: "iproute2",
    read: () => "a tap device could be made",
    fix: "load the tun module (modprobe tun) and run the agent as root",
  },
  {
    name: "nftables",
    argv: inNamespace("nft", "add", "table", "inet", "gpve_probe"),
    package: "nftables",
    read: () => "a table could be made",
    fix: asRoot,
  },
  {
    name: "nft-bridge",
    argv: inNamespace(
      "nft",
      "add table bridge gpve_probe; add chain bridge gpve_probe c { type filter hook prerouting priority 0; };",
    ),
    package: "nftables",
    read: () => "frames on bridges can be filtered (firewall=1)",
    fix: "load the module (modprobe nf_tables_bridge nft_meta_bridge) and run the agent as root, on a kernel that has it (Debian's linux-image-amd64 does)",
  },
  { name: "dnsmasq", argv: ["dnsmasq", "--version"], package: "dnsmasq-base" },
  { name: "lvm", argv: ["lvm", "version"], package: "lvm2" },
  {
    name: "dm-thin",
    argv: ["dmsetup", "targets"],
    package: "dmsetup thin-provisioning-tools",
    read: (output) => (/^thin-pool\s/m.test(output) ? "the kernel knows thin-pool" : undefined),
    fix: "load the module (modprobe dm_thin_pool) or boot a kernel that has it (Debian's linux-image-amd64 does)",
  },
  {
    name: "zfs",
    argv: ["zfs", "version"],
    package: "zfsutils-linux zfs-dkms",
    fix: "load the module: modprobe zfs",
  },
  { name: "rbd", argv: ["rbd", "--version"], package: "ceph-common" },
  { name: "nfs-client", argv: ["mount.nfs", "-V"], package: "nfs-common" },
  {
    name: "nfs-kernel",
    argv: ["cat", "/proc/filesystems"],
    package: "coreutils",
    read: kernelHas("nfs4?"),
    fix: "load the module (modprobe nfs) or boot a kernel that has it (Debian's linux-image-amd64 does)",
  },
  { name: "iscsi", argv: ["iscsiadm", "--version"], package: "open-iscsi" },
  { name: "lxc", argv: ["lxc-start", "--version"], package: "lxc" },
  { name: "zstd", argv: ["zstd", "--version"], package: "zstd" },
];

export async function tryCapability(
  probe: CapabilityProbe,
  exec: Exec,
  signal?: AbortSignal,
): Promise<Capability> {
  const [file, ...args] = probe.argv;
  const install = `apt-get install -y ${probe.package}`;
  try {
    const options = { timeoutMs: 10_000, ...given({ signal }) };
    const { stdout, stderr } = await exec(file, args, options);
    const detail = (probe.read ?? firstLine)(stdout === "" ? stderr : stdout);
    if (detail !== undefined) return { name: probe.name, available: true, detail };
    return unavailable(
      probe.name,
      `${probe.argv.join(" ")} shows that it is not there`,
      probe.fix ?? install,
    );
  } catch (err) {
    const missing = isAppError(err, "feature.unsupported") || /failed to execute/.test(messageOf(err));
    return unavailable(probe.name, messageOf(err), missing ? install : (probe.fix ?? install));
  }
}

export function unavailable(name: string, detail: string, fix: string): Capability {
  return { name, available: false, detail, fix };
}
