// The root of an L3 worker's machine without Kubernetes' programs: busybox, the programs that kubelet and kube-proxy call, the
// modules that pods and their networks need, and our scripts. And the small archive that finds that root.
import { readFileSync } from "node:fs";
import type { Exec } from "@gpve/kit/exec.ts";
import { type CpioEntry, withFolders } from "../cpio-archive.ts";
import { moduleEntries } from "../module-entries.ts";
import { addLibraries, firstOf, uniqueEntries } from "../package-files.ts";
import { EARLY_INIT, WORKER_SCRIPTS } from "./worker-scripts.ts";

const EARLY_MODULES = ["virtio_pci", "virtio_mmio", "virtio_blk"];

/** What the kernel has built in, or not at all, is left out. */
export const WORKER_MODULES: readonly string[] = [
  ...EARLY_MODULES,
  "virtio_net",
  "virtio_console",
  "virtio_rng",
  "overlay",
  "bridge",
  "br_netfilter",
  "veth",
  "dummy",
  "tun",
  "vxlan",
  "nf_conntrack",
  "nf_conntrack_netlink",
  "nf_tables",
  "nfnetlink",
  "nft_chain_nat",
  "nft_compat",
  "nft_ct",
  "nft_fib",
  "nft_fib_inet",
  "nft_fib_ipv4",
  "nft_fib_ipv6",
  "nft_hash",
  "nft_limit",
  "nft_log",
  "nft_masq",
  "nft_nat",
  "nft_numgen",
  "nft_objref",
  "nft_redir",
  "nft_reject",
  "nft_reject_inet",
  "nft_reject_ipv4",
  "nft_reject_ipv6",
];

/** busybox' own mount knows too few options for kubelets. */
export const WORKER_PROGRAMS = ["usr/sbin/nft", "bin/mount", "bin/umount"] as const;

const EMPTY_FOLDERS = [
  "dev",
  "proc",
  "sys",
  "run",
  "tmp",
  "var",
  "root",
  "opt/gpve/bin",
  "opt/gpve/cni",
  "opt/gpve/images",
  // Kubelets look for plugins of volumes there, and would make it.
  "usr/libexec/kubernetes/kubelet-plugins/volume/exec",
];

export async function workerRoot(packages: string, release: string, exec: Exec): Promise<CpioEntry[]> {
  const entries: CpioEntry[] = EMPTY_FOLDERS.map((path) => ({ path, kind: "folder" }));
  const file = (path: string, data: Uint8Array, executable = false): void => {
    entries.push({ path, kind: "file", data, executable });
  };
  const link = (path: string, to: string): void => {
    entries.push({ path, kind: "link", data: Buffer.from(to) });
  };
  const busybox = busyboxIn(packages);
  file("bin/busybox", readFileSync(busybox), true);
  const { stdout } = await exec(busybox, ["--list"]);
  for (const applet of stdout.split("\n").filter((name) => name !== "" && name !== "busybox"))
    link(`${/^(?:init|modprobe)$/.test(applet) ? "sbin" : "bin"}/${applet}`, "/bin/busybox");
  const needed = new Map<string, Uint8Array>();
  for (const path of WORKER_PROGRAMS) {
    const program = readFileSync(firstOf(packages, [path, `usr/${path}`, path.replace("usr/", "")]));
    file(path, program, true);
    addLibraries(packages, program, needed);
  }
  for (const [path, bytes] of needed) file(path, bytes, true);
  entries.push(...(await moduleEntries(packages, release, WORKER_MODULES, exec)));
  for (const { path, text, executable } of WORKER_SCRIPTS) file(path, Buffer.from(text), executable);
  // Of this worker alone, and the root is read-only.
  link("etc/machine-id", "/run/gpve/machine-id");
  link("etc/resolv.conf", "/run/gpve/resolv.conf");
  link("etc/hosts", "/run/gpve/hosts");
  return withFolders(uniqueEntries(entries));
}

export async function earlyRoot(packages: string, release: string, exec: Exec): Promise<CpioEntry[]> {
  return withFolders([
    ...["dev", "proc", "sys", "root"].map((path) => ({ path, kind: "folder" }) as const),
    { path: "bin/busybox", kind: "file", data: readFileSync(busyboxIn(packages)), executable: true },
    { path: "init", kind: "file", data: Buffer.from(EARLY_INIT), executable: true },
    ...(await moduleEntries(packages, release, EARLY_MODULES, exec)),
  ]);
}

function busyboxIn(packages: string): string {
  return firstOf(packages, ["bin/busybox", "usr/bin/busybox"]);
}
