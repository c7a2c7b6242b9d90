import { expect, test } from "vitest";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Collection } from "@gpve/store/records/port.ts";
import { ReadGuests } from "../../../application/guest/read-guests.ts";
import { createContainerHandlers } from "./container-handlers.ts";

const vm = guestRecord({ vmid: 100, type: "qemu", node: "n1", conf: "memory: 512\n" });
const guests = new ReadGuests({
  guests: {
    get: (id: string) => (id === "100" ? { id, value: vm } : undefined),
  } as unknown as Collection<GuestRecord>,
  board: { list: () => [], get: () => undefined, generation: () => 1 },
  permissions: () => 1,
});

test("no container exists, not even where a VM has its number", () => {
  const handlers = Object.entries(createContainerHandlers({ guests }));
  expect(handlers).not.toEqual([]);
  for (const [key, handler] of handlers)
    for (const vmid of [100, 999]) {
      const read = () =>
        (handler as (params: unknown, ctx: unknown) => unknown)({ node: "n1", vmid }, {} as RequestContext);
      expect(read, key).toThrow(`Configuration file 'nodes/n1/lxc/${vmid}.conf' does not exist`);
    }
});
