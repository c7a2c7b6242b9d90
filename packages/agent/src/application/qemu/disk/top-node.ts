// The topmost block node of a running guest's drive. It has another name once a copy has taken the drive's place, so
// QEMU is asked.
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { isTopNodeOf, topNodeName } from "@gpve/domain/vm/argv/block/block-node.ts";

/** The one the guest's device is on. */
export async function presentTop(process: QemuProcess, key: string): Promise<string> {
  const devices = await process.qmp.execute("query-block");
  const names = devices.map(({ inserted }) => inserted?.["node-name"] ?? "");
  // A backup puts a node of its own between device and drive; there is only one drive then.
  return (
    names.find((name) => isTopNodeOf(key, name)) ?? (await topNodes(process, key))[0] ?? topNodeName(key)
  );
}

/** All of them: two while a copy is made. */
export async function topNodes({ qmp }: QemuProcess, key: string): Promise<readonly string[]> {
  const nodes = await qmp.execute("query-named-block-nodes", { flat: true });
  return nodes.map((node) => node["node-name"] ?? "").filter((name) => isTopNodeOf(key, name));
}
