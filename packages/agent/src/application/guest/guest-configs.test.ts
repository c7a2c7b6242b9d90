import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { emptyVmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { expect, it } from "vitest";
import { VmConfigs } from "../qemu/config/vm-configs.ts";

it("notes when pending changes came and when none was left, and not what happens between", async () => {
  const clock = new FakeClock();
  const records = await openRecords(openSqliteStore({ path: ":memory:" }), {
    prefix: "/gpve/",
    log: { error: () => undefined },
  });
  const configs = new VmConfigs({ node: "n1", records: () => records, sha1Hex: (text) => text, clock });
  const pendingAt = () => records.collection(guestCollection).get("100")?.value.pendingAt;
  const pend = (values: Readonly<Record<string, string>>) =>
    configs.change(100, (config) => ({ ...config, pending: values }));

  await configs.create(100, emptyVmConfig);
  await configs.change(100, (config) => ({ ...config, values: { ...config.values, cores: "2" } }));
  expect(pendingAt()).toBeUndefined();

  await clock.advance(1000);
  const first = clock.now();
  await pend({ memory: "512" });
  await clock.advance(1000);
  await pend({ memory: "1024" });
  expect(pendingAt()).toBe(first);

  await clock.advance(1000);
  await pend({});
  expect(pendingAt()).toBe(clock.now());
  await records.close();
});
