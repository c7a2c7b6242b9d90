// The requests about VMs as they were drawn before there was a product (appendix C of the design that `../shared` has, or
// GPVE_SEEDS): each is answered, or refused by name with the reason.
import { existsSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { drawnRequests, type DrawnRequest } from "@gpve/server/testing/drawn-requests.ts";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const drawing = drawnRequests("C.1", "/api2/json");
const lacking =
  drawing.lacking ??
  (existsSync("/usr/bin/qemu-system-x86_64") ? undefined : "apt-get install qemu-system-x86");
if (lacking !== undefined) console.warn(`SKIPPED: requests as drawn: ${lacking}`);

describe.skipIf(lacking !== undefined)("requests as drawn", () => {
  let gpve: Gpve;
  let api: Api;
  let node = "";
  beforeAll(async () => {
    gpve = await startGpve();
    api = apiOf(gpve.credentials);
    node = await firstNode(api);
  });
  afterAll(() => gpve.stop());

  const send = ({ method, path, body = {} }: DrawnRequest) => {
    const numbers = Object.entries(body).map(([key, value]) => [key, value === true ? 1 : value] as const);
    const filled = path.replace("{node}", node).replace("{vmid}", "100");
    return api(method, filled, Object.fromEntries(numbers) as Record<string, string | number>);
  };
  const end = async (request: DrawnRequest): Promise<string> => {
    const answer = await send(request);
    expect(answer.status, answer.text).toBe(200);
    return (await waitTask(api, String(answer.data))).exitstatus ?? "";
  };

  /** How it ended, at once or as a task. */
  const outcome = async (request: DrawnRequest): Promise<string> => {
    const answer = await send(request);
    if (answer.status !== 200) return answer.text;
    return (await waitTask(api, String(answer.data))).exitstatus ?? "";
  };

  test("all of them are known", () => {
    expect(drawing.requests.map(({ method, path }) => `${method} ${path}`)).toHaveLength(8);
  });

  test("go through the life of a VM; what the machine lacks is named", async () => {
    expect((await send(drawing.find("GET", "/qemu"))).data).toEqual([]);
    const create = drawing.find("POST", "/qemu");
    const elsewhere = await send(create);
    expect(elsewhere.text).toContain("storage 'local-zfs' does not exist");
    const drawn = create.body ?? {};
    const here = { ...drawn, scsi0: String(drawn["scsi0"]).replace("local-zfs", "local") };
    expect(await end({ ...create, body: here })).toBe("OK");
    expect((await send(drawing.find("GET", "/status/current"))).data).toMatchObject({
      name: drawn["name"],
      status: "stopped",
      cpus: 4,
    });
    const config = (await api("GET", `/nodes/${node}/qemu/100/config`)).data as Record<string, unknown>;
    expect(config).toMatchObject({ memory: "8192", cores: 4, sockets: 1 });
    expect(config["scsi0"]).toContain("size=100G");
    // A machine without the bridge, or with too little memory or too few processors, says so.
    expect(await end(drawing.find("POST", "/status/start"))).toMatch(/^OK$|vmbr0|memory|vcpus allowed/i);
    expect(await end(drawing.find("POST", "/status/stop"))).toBe("OK");
    expect(await outcome(drawing.find("POST", "/migrate"))).toContain("node-02");
    // Raw disks in a directory have no snapshots, as with PVE.
    expect(await outcome(drawing.find("POST", "/snapshot"))).toMatch(/^OK$|snapshot/);
    expect(await end(drawing.find("DELETE", "/{vmid}"))).toBe("OK");
    expect((await send(drawing.find("GET", "/qemu"))).data).toEqual([]);
  });
});
