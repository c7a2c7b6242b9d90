// What the kernel's own files say of network interfaces. A program that is asked instead costs every start of a guest tens of
// milliseconds on a busy machine.
import type { HostFiles } from "../facts/host-files.ts";
import type { NetInterface } from "./interfaces.ts";

/** As much of an interface as its files tell. */
export type KernelLink = Pick<NetInterface, "name" | "mtu" | "kind" | "vlanAware">;

type Files = Pick<HostFiles, "read" | "list">;

const FOLDER = "/sys/class/net";

/** undefined = there is none of that name. */
export async function kernelLink(files: Files, name: string): Promise<KernelLink | undefined> {
  if (name === "" || name.includes("/")) return undefined;
  const [mtu, isBridge, filters] = await Promise.all([
    files.read(`${FOLDER}/${name}/mtu`),
    hasBridge(files, name),
    files.read(`${FOLDER}/${name}/bridge/vlan_filtering`),
  ]);
  if (mtu === undefined) return undefined;
  const link = { name, mtu: Number(mtu), kind: isBridge ? "bridge" : "" };
  return isBridge ? { ...link, vlanAware: filters?.trim() === "1" } : link;
}

export async function bridgeMtus(files: Files): Promise<Record<string, number>> {
  const names = await files.list(FOLDER);
  const found = await Promise.all(
    names.map(async (name) => ((await hasBridge(files, name)) ? kernelLink(files, name) : undefined)),
  );
  return Object.fromEntries(found.flatMap((link) => (link === undefined ? [] : [[link.name, link.mtu]])));
}

async function hasBridge(files: Files, name: string): Promise<boolean> {
  return (await files.list(`${FOLDER}/${name}/bridge`)).length > 0;
}
