import { expect, test } from "vitest";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { cacheReader } from "../adapter.ts";
import { networkAdapter } from "./network.ts";

const seen = {
  name: "vmbr0",
  up: true,
  vlanAware: true,
  mtu: 1500,
  addresses: ["10.0.0.1/24"],
  ports: ["eth0"],
};
const node = (name: string, facts: object) => ({ node: name, facts }) as unknown as NodeView;
const views = [
  node("n1", { bridges: ["vmbr0", "vmbr1"], networks: [seen] }),
  node("n2", { bridges: ["vmbr0"] }),
  { node: "n3", facts: undefined } as unknown as NodeView,
];
const board = { list: () => views } as unknown as NodeBoard;

test("bridges of all nodes are one object by name, with the VLANs that guests have on it", async () => {
  const store = openSqliteStore({ path: ":memory:" });
  const records = await openRecords(store, { prefix: "/gpve/", log: silentLogger });
  const adapter = networkAdapter({ board });
  const changes: string[][] = [];
  const stop = adapter.onChange(records, (names) => changes.push([...names]));
  const put = (vmid: number, conf: string) =>
    records.transact((tx) =>
      tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node: "n1", conf })),
    );
  await put(100, "net0: virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=30\nnet1: e1000,bridge=vmbr0,trunks=7;9\n");
  await put(101, "net0: virtio,bridge=vmbr0\n\n[snap]\nnet0: virtio,bridge=vmbr1,tag=99\n");
  await put(102, "net0: virtio\n");
  const reader = cacheReader(records);
  expect(adapter.list(reader).map(({ name, status }) => ({ name, ...status }))).toEqual([
    {
      name: "vmbr0",
      nodes: [
        { node: "n1", up: true, vlanAware: true, mtu: 1500, addresses: ["10.0.0.1/24"], ports: ["eth0"] },
        { node: "n2" },
      ],
      vlans: [7, 9, 30],
      guests: 2,
    },
    { name: "vmbr1", nodes: [{ node: "n1" }], vlans: [], guests: 0 },
  ]);
  expect(adapter.get(reader, "vmbr1")?.name).toBe("vmbr1");
  expect(adapter.get(reader, "vmbr9")).toBeUndefined();
  expect(changes).toEqual([["vmbr0"], ["vmbr0"], []]);
  stop();
  await records.close();
  await store.close();
});
