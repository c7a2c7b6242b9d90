// What can be said of the machines before the platform is asked.
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import { cloneMode } from "../cluster/templates.ts";
import { versionOf } from "../engine/versions.ts";
import { error, type Finding, warning } from "./finding-report.ts";

/** Models older than x86-64-v2. */
const OLD_CPUS =
  /^(kvm32|kvm64|qemu32|qemu64|486|pentium[23]?|athlon|coreduo|core2duo|Conroe|Opteron_G[12]|x86-64-v1)$/;

export function checkFile(cluster: Cluster, machines: readonly Machine[]): readonly Finding[] {
  const types = new Map(cluster.providers.map(({ name, type }) => [name, type]));
  return [
    ...(cloneMode(cluster) !== undefined && cluster.image.boot === "iso"
      ? [error("template-of-iso", "templates", "image.boot is iso")]
      : []),
    ...templateNodes(cluster, machines),
    ...(cluster.image.platform === "metal"
      ? [error("platform-of-image", "image", "image.platform is metal")]
      : []),
    ...(/(?:^|\/)metal-[^/]*$/.test(cluster.image.archive ?? "")
      ? [error("platform-of-image", "image", `image.archive is ${cluster.image.archive}`)]
      : []),
    ...(cluster.image.secureboot && cluster.image.boot === "disk" && minorOf(cluster) < 14
      ? [error("secureboot-needs-iso", "image", `Talos is ${cluster.versions.talos}, image.boot is disk`)]
      : []),
    ...(cluster.talos.diskEncryption === "tpm" && !cluster.image.secureboot
      ? [warning("tpm-without-secureboot", "talos.diskEncryption", "it is tpm, image.secureboot is false")]
      : []),
    ...machines.flatMap((machine): readonly Finding[] => {
      const { name, size, role } = machine;
      const isControlPlane = role === "controlplane";
      const isSmall =
        size.diskGiB < 10 ||
        size.memoryMiB < (isControlPlane ? 2048 : 1024) ||
        (isControlPlane && size.cores < 2);
      return [
        ...(machine.arch === "amd64" && OLD_CPUS.test(size.cpu.split(",")[0] ?? "")
          ? [error("cpu-too-old", name, `cpu is ${size.cpu}`)]
          : []),
        ...(cluster.image.secureboot && size.bios !== "ovmf"
          ? [error("secureboot-needs-uefi", name, `bios is ${size.bios}, image.secureboot is true`)]
          : []),
        ...(isSmall
          ? [
              warning(
                "machine-small",
                name,
                `${size.cores} cores, ${size.memoryMiB} MiB, ${size.diskGiB} GiB of disk`,
              ),
            ]
          : []),
        ...(size.scsihw === "virtio-scsi-single"
          ? [warning("scsi-single", name, `scsihw is ${size.scsihw}`)]
          : []),
        ...(machine.arch !== "amd64" && types.get(machine.provider) === "pve-api"
          ? [warning("arch-needs-root", name, `arch is ${machine.arch}, set with a token`)]
          : []),
      ];
    }),
  ];
}

/** Nodes that the file does not know are typos. */
function templateNodes(cluster: Cluster, machines: readonly Machine[]): readonly Finding[] {
  const known = new Set([
    ...cluster.providers.flatMap(({ nodes }) => nodes),
    ...machines.map(({ host }) => host),
  ]);
  return cluster.templates.nodes
    .filter((node) => !known.has(node))
    .map((node) => error("template-node-unknown", node, `providers have ${[...known].join(", ")}`));
}

const minorOf = ({ versions }: Cluster): number => versionOf(versions.talos.replace(/^v?/, "v")).minor;
