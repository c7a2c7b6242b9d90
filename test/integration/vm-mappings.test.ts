// Devices of the host for guests, through the API of a real gpve: mappings and their checks, USB devices plugged into
// a running QEMU, PCI devices refused where the host cannot isolate them.
import { existsSync } from "node:fs";
import { hostname } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiOf, startGpve, type Api, type Gpve } from "../support/gpve.ts";
import { runTask, type TaskCall } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

let gpve: Gpve;
let api: Api;
let node: string;

beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  node = ((await api("GET", "/nodes")).data as { node: string }[])[0]?.node ?? hostname();
});
afterAll(() => gpve.stop());

const run = async (...call: TaskCall) => (await runTask(api, ...call)).exitstatus;
const vm = (): string => `/nodes/${node}/qemu/100`;

describe("mappings", () => {
  test("are checked on the node they are about", async () => {
    const missing = { id: "gpu", map: `node=${node},path=0000:ff:1f.7,id=10de:1234` };
    expect(await api("POST", "/cluster/mapping/pci", missing)).toMatchObject({ status: 200, data: null });
    expect((await api("GET", `/cluster/mapping/pci?check-node=${node}`)).data).toMatchObject([
      {
        id: "gpu",
        checks: [
          { severity: "error", message: "Invalid configuration: pci device '0000:ff:1f.7' not found\n" },
        ],
      },
    ]);
    expect(
      await api("POST", "/cluster/mapping/dir", { id: "tmp", map: `node=${node},path=/no/such` }),
    ).toMatchObject({
      status: 500,
      reason: "Path /no/such does not exist",
    });
    const key = { id: "key", map: "node=elsewhere,id=1234:5678" };
    expect((await api("POST", "/cluster/mapping/usb", key)).status).toBe(200);
    expect((await api("GET", `/cluster/mapping/usb?check-node=${node}`)).data).toMatchObject([
      { id: "key", errors: [{ severity: "warning", message: `No mapping for node ${node}.` }] },
    ]);
    expect((await api("GET", "/cluster/mapping/pci?check-node=nowhere")).status).not.toBe(200);
    expect((await api("GET", `/nodes/${node}/hardware/pci/gpu/mdev`)).data).toEqual([]);
    expect((await api("GET", `/nodes/${node}/hardware/usb`)).status).toBe(200);
  });
});

describe.skipIf(!hasQemu)("a guest", () => {
  const plugged = async (): Promise<string[]> => {
    const answer = await api("POST", `${vm()}/monitor`, { command: "info qtree" });
    return [...String(answer.data).matchAll(/dev: usb-host, id "(\w+)"/g)].map(([, id]) => id ?? "");
  };

  test("gets USB devices while it runs, and loses them", async () => {
    const made = await run("POST", `/nodes/${node}/qemu`, { vmid: 100, memory: 64, ostype: "l26", start: 1 });
    expect(made).toBe("OK");
    // A token is not root: devices only by their mappings.
    expect((await api("PUT", `${vm()}/config`, { usb0: "host=1234:5678" })).text).toContain(
      "only root can set 'usb0' config for real devices",
    );
    const wrong = await api("PUT", `${vm()}/config`, { usb0: "mapping=key" });
    expect(wrong).toMatchObject({ status: 400 });
    expect(wrong.text).toContain("USB device mapping not found for 'key'");
    await api("PUT", "/cluster/mapping/usb/key", { map: `node=${node},id=1234:5678` });
    await api("POST", "/cluster/mapping/usb", { id: "other", map: `node=${node},id=1234:9999` });
    expect((await api("PUT", `${vm()}/config`, { usb0: "mapping=key" })).text).toBe('{"data":null}');
    expect(await plugged()).toEqual(["usb0"]);
    expect((await api("GET", `${vm()}/config`)).data).toMatchObject({ usb0: "mapping=key" });
    expect((await api("PUT", `${vm()}/config`, { usb1: "mapping=other" })).text).toBe('{"data":null}');
    expect((await plugged()).toSorted()).toEqual(["usb0", "usb1"]);
    expect((await api("PUT", `${vm()}/config`, { delete: "usb0,usb1" })).text).toBe('{"data":null}');
    expect(await plugged()).toEqual([]);
    expect(await run("POST", `${vm()}/status/stop`)).toBe("OK");
  });

  test("is not started with a PCI device that is not there", async () => {
    await api("PUT", `${vm()}/config`, { hostpci0: "mapping=gpu" });
    expect(await run("POST", `${vm()}/status/start`)).toBe(
      "PCI device mapping invalid (hardware probably changed): pci device '0000:ff:1f.7' not found",
    );
    await api("DELETE", "/cluster/mapping/pci/gpu");
    expect(await run("POST", `${vm()}/status/start`)).toBe("PCI device mapping not found for 'gpu'");
    expect(await run("DELETE", vm())).toBe("OK");
  });
});
