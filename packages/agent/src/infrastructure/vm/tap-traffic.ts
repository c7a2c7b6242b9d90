import { readFileSync } from "node:fs";

/** Counters of a network device as the kernel keeps them; undefined when it is gone. */
export function tapTraffic(tap: string): { received: number; sent: number } | undefined {
  try {
    const read = (name: string): number =>
      Number(readFileSync(`/sys/class/net/${tap}/statistics/${name}`, "utf8"));
    return { received: read("rx_bytes"), sent: read("tx_bytes") };
  } catch {
    return undefined; // the guest has just ended
  }
}
