import { describe, expect, test } from "vitest";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { madeUpRequest, madeUpVmHost } from "../../../testing/made-up-vm.ts";
import { createVmMonitorHandlers } from "./vm-monitor-handlers.ts";

const sent: unknown[] = [];
const qmp = {
  execute: (command: string, args: Record<string, unknown>) => {
    sent.push([command, args]);
    if (args["command-line"] === "bad") return Promise.reject(new Error("no such thing"));
    return Promise.resolve("VM status: running\r\n");
  },
} as unknown as QemuProcess["qmp"];
const host = madeUpVmHost({
  100: { values: {}, process: { id: "100", hasExited: false, qmp } },
  101: { values: {} },
});
const handlers = createVmMonitorHandlers(host);
const joe = {
  actor: { userid: "joe@pve", authid: "joe@pve" },
  access: {
    privileges: () => new Map(),
    has: () => false,
    require: () => {
      throw new Error("Permission check failed (/, Sys.Modify)");
    },
  },
};

describe("a running VM", () => {
  test("gets keys", async () => {
    const press = handlers["PUT /nodes/{node}/qemu/{vmid}/sendkey"];
    expect(await press?.({ node: "n1", vmid: 100, key: "ctrl-0x1c-<" }, madeUpRequest())).toBeNull();
    expect(sent.at(-1)).toEqual([
      "send-key",
      {
        keys: [
          { type: "qcode", data: "ctrl" },
          { type: "number", data: 28 },
          { type: "qcode", data: "less" },
        ],
      },
    ]);
    await expect(press?.({ node: "n1", vmid: 101, key: "a" }, madeUpRequest())).rejects.toThrow(
      "VM 101 not running",
    );
    for (const key of ["a b", "", "a-".repeat(20)])
      await expect(press?.({ node: "n1", vmid: 100, key }, madeUpRequest())).rejects.toThrow(
        "invalid parameter",
      );
    await expect(
      press?.({ node: "n1", vmid: 100, key: "a", skiplock: true }, madeUpRequest(joe)),
    ).rejects.toThrow("Parameter verification failed.");
  });

  test("answers its monitor's commands, and looking needs less than changing", async () => {
    const ask = handlers["POST /nodes/{node}/qemu/{vmid}/monitor"];
    const run = (command: string, more = {}) =>
      ask?.({ node: "n1", vmid: 100, command }, madeUpRequest(more));
    expect(await run("info status", joe)).toBe("VM status: running\r\n");
    expect(await run("help", joe)).toBe("VM status: running\r\n");
    expect(await run("bad")).toBe("ERROR: no such thing\n");
    expect(await ask?.({ node: "n1", vmid: 101, command: "info status" }, madeUpRequest(joe))).toBe(
      "ERROR: VM 101 not running\n",
    );
    const refused = async (command: string) => expect(async () => run(command, joe)).rejects;
    await (await refused("system_reset")).toThrow("Permission check failed (/, Sys.Modify)");
    await (await refused(" drive_add 0 x")).toThrow("root-only command 'drive_add'");
    await (await refused("information")).toThrow("command 'information' non-existent or not assigned");
    await (await refused("")).toThrow("no command specified");
    await (await refused("  ")).toThrow("unexpected command '  '");
    expect(await run("screendump x")).toBe("VM status: running\r\n");
  });
});

test("a dbus-vmstate helper is refused with the reason, and stopping none is no error", () => {
  const dbus = handlers["POST /nodes/{node}/qemu/{vmid}/dbus-vmstate"];
  const ctx = madeUpRequest();
  expect(dbus?.({ node: "n1", vmid: 100, action: "stop" }, ctx)).toBeNull();
  expect(() => dbus?.({ node: "n1", vmid: 100, action: "start" }, ctx)).toThrow("has-dbus-vmstate is false");
  expect(() => dbus?.({ node: "n1", vmid: 101, action: "start" }, ctx)).toThrow(
    "VM 101 must be running locally",
  );
});
