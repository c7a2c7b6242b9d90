import { readFileSync } from "node:fs";
import { GpveClient } from "@gpve/client/client.ts";
import { NodeTransport } from "@gpve/client/node-transport.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { readCredentials } from "./welcome.ts";

/** How many guests run on this machine's node, asked of its own server. */
export async function runningGuests(data: DataDir): Promise<number> {
  const client = localClient(data);
  if (client === undefined) return 0;
  try {
    const rows = await client.pve.list("/cluster/resources", { type: "vm" });
    return rows.filter((row) => row["status"] === "running").length;
  } finally {
    client.close();
  }
}

/** The virtual clusters that have processes on this machine's node. */
export async function runningClusters(data: DataDir): Promise<readonly string[]> {
  const client = localClient(data);
  if (client === undefined) return [];
  try {
    const { items } = await client.v1.list("vclusters");
    return items
      .filter(({ status }) => status?.["power"] === "hot" || status?.["power"] === "warm")
      .map(({ metadata: { name, namespace = "default" } }) =>
        namespace === "default" ? name : `${namespace}/${name}`,
      )
      .toSorted();
  } finally {
    client.close();
  }
}

/** A client for the server on the same machine, trusted by its own CA file. */
export function localClient(data: DataDir): GpveClient | undefined {
  const credentials = readCredentials(data);
  if (credentials === undefined) return undefined;
  return new GpveClient({
    transport: new NodeTransport({
      url: credentials.url,
      ca: readFileSync(credentials.caFile, "utf8"),
      fingerprint: credentials.fingerprint,
      timeoutMs: 5_000,
    }),
    credentials: { kind: "token", token: credentials.token },
    clock: systemClock,
  });
}
