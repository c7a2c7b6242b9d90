import { afterEach, beforeEach, expect, it } from "vitest";
import { VmWorld } from "../../../testing/vm-world.ts";

let world: VmWorld;
beforeEach(async () => {
  world = await VmWorld.open();
});
afterEach(() => world.remove());

it("reads a configuration once for each time it was written, and a changed one at once", async () => {
  const { configs } = world;
  await world.add(100, { cores: "1" });
  const first = configs.get(100);
  expect(configs.get(100)).toBe(first);
  await configs.change(100, (config) => ({ ...config, values: { ...config.values, cores: "2" } }));
  const second = configs.get(100);
  expect(second.values).toMatchObject({ cores: "2" });
  expect(second.digest).not.toBe(first.digest);
  await configs.remove(100);
  expect(() => configs.get(100)).toThrow("does not exist");
  await world.add(100, { cores: "3" });
  expect(configs.get(100).values).toMatchObject({ cores: "3" });
});

it("lets no reader change what all readers see", async () => {
  await world.add(100, { cores: "1" }, { snapshots: { one: { cores: "4" } }, pending: { cores: "2" } });
  const { values, pending, snapshots } = world.configs.get(100) as unknown as Record<
    string,
    Record<string, unknown>
  >;
  for (const section of [values, pending, snapshots, snapshots?.["one"] as Record<string, unknown>])
    expect(() => Object.assign(section ?? {}, { cores: "9" })).toThrow(TypeError);
});
