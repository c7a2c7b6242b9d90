// The requests about VMs as they were drawn before there was a product (appendix C of the design that `../shared` has, or
// GPVE_SEEDS): each is answered, or refused by name with the reason.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, apiOf, firstNode, type Gpve, root as tree, startGpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const folder = resolve(process.env["GPVE_SEEDS"] ?? join(tree, "../shared/seeds"));
const file = existsSync(folder) ? readdirSync(folder).find((name) => name.startsWith("004_")) : undefined;
const lacking =
  file === undefined
    ? `no drawing in ${folder}`
    : existsSync("/usr/bin/qemu-system-x86_64")
      ? undefined
      : "apt-get install qemu-system-x86";
if (lacking !== undefined) console.warn(`SKIPPED: requests as drawn: ${lacking}`);

interface Drawn {
  readonly method: string;
  readonly path: string;
  readonly body: Readonly<Record<string, string | number | boolean>>;
}

function drawnRequests(text: string): readonly Drawn[] {
  const section = /### C\.1[^\n]*\n+```\n([\s\S]*?)```/.exec(text)?.[1] ?? "";
  return section
    .split(/^# .*$/m)
    .map((part) => /^(GET|POST|DELETE) \/api2\/json(\S+)\s*([\s\S]*)$/.exec(part.trim()))
    .flatMap((found) => {
      if (found === null) return [];
      const [, method = "", path = "", rest = ""] = found;
      const json = rest.slice(rest.indexOf("{"));
      const body = rest.includes("{") ? (JSON.parse(json) as Drawn["body"]) : {};
      return [{ method, path, body }];
    });
}

describe.skipIf(lacking !== undefined)("requests as drawn", () => {
  const drawn = file === undefined ? [] : drawnRequests(readFileSync(join(folder, file), "utf8"));
  let gpve: Gpve;
  let api: Api;
  let node = "";
  beforeAll(async () => {
    gpve = await startGpve();
    api = apiOf(gpve.credentials);
    node = await firstNode(api);
  });
  afterAll(() => gpve.stop());

  const find = (method: string, end: string): Drawn => {
    const found = drawn.find((each) => each.method === method && each.path.endsWith(end));
    if (found === undefined) throw new Error(`nothing drawn for ${method} …${end}`);
    return found;
  };
  const send = ({ method, path, body }: Drawn) => {
    const numbers = Object.entries(body).map(([key, value]) => [key, value === true ? 1 : value] as const);
    const filled = path.replace("{node}", node).replace("{vmid}", "100");
    return api(method, filled, Object.fromEntries(numbers) as Record<string, string | number>);
  };
  const end = async (request: Drawn): Promise<string> => {
    const answer = await send(request);
    expect(answer.status, answer.text).toBe(200);
    return (await waitTask(api, String(answer.data))).exitstatus ?? "";
  };

  /** How it ended, at once or as a task. */
  const outcome = async (request: Drawn): Promise<string> => {
    const answer = await send(request);
    if (answer.status !== 200) return answer.text;
    return (await waitTask(api, String(answer.data))).exitstatus ?? "";
  };

  test("all of them are known", () => {
    expect(drawn.map(({ method, path }) => `${method} ${path}`)).toHaveLength(8);
  });

  test("go through the life of a VM; what the machine lacks is named", async () => {
    expect((await send(find("GET", "/qemu"))).data).toEqual([]);
    const create = find("POST", "/qemu");
    const elsewhere = await send(create);
    expect(elsewhere.text).toContain("storage 'local-zfs' does not exist");
    const here = { ...create.body, scsi0: String(create.body["scsi0"]).replace("local-zfs", "local") };
    expect(await end({ ...create, body: here })).toBe("OK");
    expect((await send(find("GET", "/status/current"))).data).toMatchObject({
      name: create.body["name"],
      status: "stopped",
      cpus: 4,
    });
    const config = (await api("GET", `/nodes/${node}/qemu/100/config`)).data as Record<string, unknown>;
    expect(config).toMatchObject({ memory: "8192", cores: 4, sockets: 1 });
    expect(config["scsi0"]).toContain("size=100G");
    // A machine without the bridge, or with too little memory or too few processors, says so.
    expect(await end(find("POST", "/status/start"))).toMatch(/^OK$|vmbr0|memory|vcpus allowed/i);
    expect(await end(find("POST", "/status/stop"))).toBe("OK");
    expect(await outcome(find("POST", "/migrate"))).toContain("node-02");
    // Raw disks in a directory have no snapshots, as with PVE.
    expect(await outcome(find("POST", "/snapshot"))).toMatch(/^OK$|snapshot/);
    expect(await end(find("DELETE", "/{vmid}"))).toBe("OK");
    expect((await send(find("GET", "/qemu"))).data).toEqual([]);
  });
});
