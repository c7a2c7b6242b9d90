// Users who are busy for long: nothing fails, nothing is left, and memory does not grow with what was done.
import { expect, test } from "vitest";
import { busyUsers } from "../../bench/soak/busy-users.ts";
import { apiOf, startGpve } from "../support/gpve.ts";
import { residentMiB } from "../support/process.ts";

/** `./gpve test --long` does ten thousand. */
const OPERATIONS = Number(process.env["GPVE_SOAK_OPERATIONS"] ?? 120);
const WARM_UP = 60;
/**
 * For each operation, whose task is remembered with its steps for thousands of tasks, and for what the first ones
 * did not touch yet. Young objects alone took 100 MiB when V8 was free to keep them.
 */
const MAY_GROW_MIB = 60;
const MIB_PER_OPERATION = 0.006;

test(
  `memory stays bounded over ${OPERATIONS} operations of four users`,
  { timeout: 120_000 + OPERATIONS * 2_000 },
  async () => {
    const gpve = await startGpve({ args: ["--node", "soak"] });
    try {
      const api = apiOf(gpve.credentials);
      const work = { api, data: gpve.data, node: "soak", users: 4 };
      expect((await busyUsers({ ...work, operations: WARM_UP })).failures).toEqual([]);
      const before = residentMiB(gpve.process.pid);
      const { operations, failures } = await busyUsers({ ...work, operations: OPERATIONS });
      expect(failures).toEqual([]);
      expect(operations).toBeGreaterThanOrEqual(OPERATIONS);
      const grown = residentMiB(gpve.process.pid) - before;
      expect(grown).toBeLessThan(MAY_GROW_MIB + OPERATIONS * MIB_PER_OPERATION);
      expect((await api("GET", "/nodes/soak/qemu")).data).toEqual([]);
      const volumes = (await api("GET", "/nodes/soak/storage/local/content", { content: "images" })).data;
      expect(volumes).toEqual([]);
    } finally {
      await gpve.stop();
    }
  },
);
