// A network in memory: who has which address, and what Image Factories there are.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Probes, Sign } from "../preflight/probes.ts";

export class FakeNetwork implements Probes {
  readonly answering = new Map<string, Sign>();
  readonly factories = new Map<string, readonly string[]>();
  /** Time servers that do not tell the time, and why. */
  readonly timeless = new Map<string, string>();
  /** Addresses that were asked for. */
  readonly asked: string[] = [];

  async address(address: string): Promise<Sign | undefined> {
    this.asked.push(address);
    return this.answering.get(address);
  }

  async versions(factory: string): Promise<readonly string[]> {
    const found = this.factories.get(factory.replace(/\/+$/, ""));
    if (found === undefined) throw new AppError("node.unavailable", "nobody answers");
    return found;
  }

  async timeServer(server: string): Promise<string | undefined> {
    return this.timeless.get(server);
  }
}
