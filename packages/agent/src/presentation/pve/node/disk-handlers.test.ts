import { given } from "@gpve/contracts/given.ts";
import { expect, test } from "vitest";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { toWire } from "@gpve/domain/schema/to-wire.ts";
import { shapeProblems } from "@gpve/kit/testing/response-shape.ts";
import { createHostDiskHandlers } from "./disk-handlers.ts";

const row = (devpath: string, used: string | undefined, more: Readonly<Record<string, unknown>> = {}) => ({
  devpath,
  gpt: true,
  size: 512,
  osdid: -1,
  "osdid-list": null,
  ...given({ used }),
  ...more,
});
const asked: unknown[] = [];
const disks = [
  row("/dev/sda", undefined),
  row("/dev/sdb", "LVM"),
  row("/dev/sdc", "partitions"),
  row("/dev/sdd", "partitions", { gpt: false }),
  row("/dev/sde", "LVM", { osdid: 1 }),
  row("/dev/sdf", "ext4"),
];
const list = (options: unknown) => {
  asked.push(options);
  return Promise.resolve(new Map(disks.map((disk) => [disk.devpath, disk])));
};
const volumes = {
  volumeGroups: async () => ({ leaf: false, children: [] }),
  thinPools: async () => [],
  zpools: async () => [{ name: "tank", size: 2, alloc: 1, free: 1, frag: 0, dedup: 1, health: "ONLINE" }],
  zpool: async (name: string) => ({ name, state: "ONLINE", errors: "none", leaf: true, children: [] }),
  directories: () => [],
};
const smart = (devpath: string) =>
  devpath === "/dev/sda"
    ? Promise.resolve({ health: "PASSED", type: "text", text: "fine\n" })
    : Promise.reject(new Error("no smartctl"));
const handlers = createHostDiskHandlers({ disks: { list, smart }, volumes, blockDevice: (path) => path });
const ctx = {} as RequestContext;
const paths = async (type?: "unused" | "journal_disks"): Promise<unknown[]> => {
  const found = await handlers["GET /nodes/{node}/disks/list"]?.({ node: "n1", ...given({ type }) }, ctx);
  return (found as { devpath: string }[]).map(({ devpath }) => devpath.slice(-1));
};

test("lists all disks, the unused ones, or those that can hold a journal", async () => {
  expect(await paths()).toEqual(["a", "b", "c", "d", "e", "f"]);
  expect(await paths("unused")).toEqual(["a"]);
  expect(await paths("journal_disks")).toEqual(["a", "b", "c"]);
  await handlers["GET /nodes/{node}/disks/list"]?.(
    { node: "n1", skipsmart: true, "include-partitions": true },
    ctx,
  );
  expect(asked[0]).toEqual({ smart: true, partitions: false });
  expect(asked.at(-1)).toEqual({ smart: false, partitions: true });
});

test("health of a disk is UNKNOWN when nobody can tell", async () => {
  const health = handlers["GET /nodes/{node}/disks/smart"];
  expect(await health?.({ node: "n1", disk: "/dev/sda" }, ctx)).toEqual({
    health: "PASSED",
    type: "text",
    text: "fine\n",
  });
  expect(await health?.({ node: "n1", disk: "/dev/sda", healthonly: true }, ctx)).toEqual({
    health: "PASSED",
  });
  expect(await health?.({ node: "n1", disk: "/dev/sdb" }, ctx)).toEqual({ health: "UNKNOWN" });
});

test("volume groups, pools and directories have the shape of PVE", async () => {
  for (const what of ["directory", "lvm", "lvmthin", "zfs", "zfs/{name}"] as const) {
    const key = `GET /nodes/{node}/disks/${what}` as const;
    const answer = await (handlers[key] as (params: unknown, ctx: unknown) => unknown)(
      { node: "n1", name: "tank" },
      ctx,
    );
    const { returns = {} } = methodByKey(key) ?? {};
    expect(shapeProblems(returns, toWire(returns, answer)), key).toEqual([]);
  }
});
