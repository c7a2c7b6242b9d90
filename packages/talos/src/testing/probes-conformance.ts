// What every look at the network must do, on the fake and on sockets alike.
import { expect, test } from "vitest";
import type { Probes } from "../preflight/probes.ts";

export interface ProbesWorld {
  readonly probes: Probes;
  /** An address where somebody has an open port, and one where nobody is. */
  readonly taken: string;
  readonly free: string;
  /** An Image Factory that has v1.13.9, and one that does not answer. */
  readonly factory: string;
  readonly silent: string;
  /** A server that tells the time, and one that does not. */
  readonly clock: string;
  readonly timeless: string;
}

export function probesConformance(world: () => ProbesWorld): void {
  test("an address is somebody's or nobody's", async () => {
    const { probes, taken, free } = world();
    expect(await probes.address(taken)).toMatchObject({ how: expect.stringContaining("port") });
    expect(await probes.address(free)).toBeUndefined();
  });

  test("a factory tells its versions, or fails", async () => {
    const { probes, factory, silent } = world();
    expect(await probes.versions(`${factory}/`)).toContain("v1.13.9");
    await expect(probes.versions(silent)).rejects.toThrow();
  });

  test("a time server tells the time, or it is said why not", async () => {
    const { probes, clock, timeless } = world();
    expect(await probes.timeServer(clock)).toBeUndefined();
    expect(await probes.timeServer(timeless)).toMatch(/./);
  });
}
