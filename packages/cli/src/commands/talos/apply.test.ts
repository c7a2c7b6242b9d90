import { appendFileSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, afterEach, describe, expect, test } from "vitest";
import { DEPLOYER_PRIVILEGES, FakePlatform, PlatformApi } from "@gpve/talos/testing/fake-platform.ts";
import { Gpvectl } from "../../testing/run-gpvectl.ts";
import { operatorName } from "./operator.ts";

let gpvectl: Gpvectl;
beforeEach(async () => {
  gpvectl = await Gpvectl.create();
});
afterEach(() => gpvectl[Symbol.asyncDispose]());

const at = (...path: readonly string[]) => join(gpvectl.home, ...path);
const read = (...path: readonly string[]) => readFileSync(at(...path), "utf8");
const init = (...more: readonly string[]) =>
  gpvectl.run(["talos", "init", "--yes", "--name", "prod", "--nodes", "pve1,pve2,pve3", ...more]);

describe("apply", () => {
  const env = { GPVE_TOKEN: "root@pam!t=VERYSECRET" };
  const talos = (args: readonly string[], answers: readonly string[] = []) =>
    gpvectl.run(["talos", ...args], { env, answers });

  /** Every request goes to the platform; machines are on loopback addresses where nobody answers. */
  async function start(): Promise<FakePlatform> {
    const platform = new FakePlatform();
    platform.privileges = () => DEPLOYER_PRIVILEGES;
    gpvectl.api.answer = (request) => new PlatformApi(platform).answer(request);
    const network = ["--network", "127.0.9.0/24", "--vip", "127.0.9.9"];
    await init("--endpoint", "https://127.0.0.1:8006", "--preset", "lab", ...network);
    await talos(["set", "image.factory=http://127.0.0.1:9"]);
    return platform;
  }

  test("asks, makes machines with a time line, and finds nothing to do after", async () => {
    const platform = await start();
    const no = await talos(["apply", "--only", "infrastructure"], ["no"]);
    expect(no).toMatchObject({ code: 1 });
    expect(no.out).toContain("Nothing was changed.");
    expect(platform.done).toEqual([]);
    const ran = await talos(["apply", "--only", "infrastructure", "--print-commands"], ["yes"]);
    expect(ran).toMatchObject({ code: 0 });
    expect(ran.out).toMatch(/… start prod-cp-1\npvesh create \/nodes\/pve1\/qemu\/2000\/status\/start\n/);
    expect(ran.out).toMatch(/0:00 {2}✓ start prod-cp-1 \(0 s, usually 5 s\)/);
    expect(ran.out).toMatch(/prod is as its file says, after +0:00/);
    expect([...platform.guests.values()].map(({ status }) => status)).toEqual(["running", "running"]);
    expect(read(".deployer/prod/journal.ndjson")).toContain('"step":"guest.create prod-cp-1"');
    expect(statSync(at(".deployer/prod/lock.json")).mode & 0o777).toBe(0o600);
    const again = await talos(["apply", "--only", "infrastructure", "--yes"]);
    expect(again.out).toContain("Nothing to do.");
    expect(platform.guests.get(2000)?.config["description"]).toBe("");
    const everything = ran.out + ran.err + read(".deployer/prod/journal.ndjson");
    expect(everything).not.toContain("VERYSECRET");
  });

  test("what a killed apply left half made is gone on with", async () => {
    const platform = await start();
    await talos(["set", "templates.clone=linked"]);
    const answer = platform.handle.bind(platform);
    platform.handle = (verb, path, values) => {
      // Right after its clone was made, and before that is anything of the machine.
      if (verb === "POST" && path.endsWith("/qemu/2000/config")) throw new Error("killed");
      return answer(verb, path, values);
    };
    const apply = ["apply", "--only", "infrastructure", "--yes"];
    expect(await talos(apply)).toMatchObject({ code: 1 });
    expect(platform.guests.get(2000)?.config["description"]).toMatch(/^to become /);
    platform.handle = answer;
    expect(await talos(apply)).toMatchObject({ code: 0 });
    expect(platform.guests.get(2000)).toMatchObject({
      status: "running",
      config: { ipconfig0: expect.stringContaining("ip=127.0.9.") as string },
    });
    expect(platform.done.filter((each) => each.endsWith("/clone"))).toHaveLength(2);
  });

  test("a guest that the platform still makes for a killed apply is waited for", async () => {
    const platform = await start();
    const apply = ["apply", "--only", "infrastructure", "--yes"];
    await talos(apply);
    const made = platform.guests.get(2000);
    if (made === undefined) throw new Error("no control plane");
    // Its name, its tag and its identity come last.
    platform.guests.set(2000, { ...made, status: "stopped", config: { lock: "clone" } });
    const line = { at: "2026-01-02T03:04:05Z", run: "x", event: "begin", step: "guest.clone prod-cp-1" };
    appendFileSync(at(".deployer", "prod", "journal.ndjson"), `${JSON.stringify(line)}\n`);
    const answer = platform.handle.bind(platform);
    let asked = 0;
    platform.handle = (verb, path, values) => {
      if (verb === "GET" && path.endsWith("/qemu/2000/config")) asked += 1;
      if (asked === 3) platform.guests.set(2000, made);
      return answer(verb, path, values);
    };
    const ran = await talos(apply);
    expect(ran).toMatchObject({ code: 0 });
    expect(ran.err).toContain("Waiting for what was begun before: prod-cp-1.");
    // Of others it is said at once.
    platform.guests.set(2000, { ...made, config: {} });
    const refused = await talos(apply);
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.err).not.toContain("Waiting");
  });

  test("two operators are kept apart, here and elsewhere", async () => {
    const platform = await start();
    await talos(["apply", "--only", "infrastructure", "--yes"]);
    const guest = platform.guests.get(2000);
    if (guest === undefined) throw new Error("no control plane");
    const now = new Date(gpvectl.now()).toISOString();
    guest.config["description"] = `notes\ngpve-talos: bob@elsewhere, process 1 since ${now}`;
    const refused = await talos(["apply", "--only", "infrastructure", "--yes"]);
    expect(refused).toMatchObject({ code: 8 });
    expect(refused.err).toContain("bob@elsewhere");
    expect(refused.err).toContain("explain operator-busy");
    expect(await talos(["apply", "--only", "infrastructure", "--yes", "--take-over"])).toMatchObject({
      code: 0,
    });
    expect(guest.config["description"]).toBe("notes");
    const killed = operatorName().replace(/process \d+/, "process 4194305");
    guest.config["description"] = `gpve-talos: ${killed} since ${now}`;
    expect(await talos(["apply", "--only", "infrastructure", "--yes"])).toMatchObject({ code: 0 });
    expect(guest.config["description"]).toBe("");
    guest.config["description"] = `gpve-talos: bob@elsewhere, process 1 since ${now}`;
    await talos(["set", "protect.destroy=false"]);
    const destroyed = await talos(["destroy", "--name", "prod"]);
    expect(destroyed).toMatchObject({ code: 8 });
    expect(platform.guests.has(2000)).toBe(true);
    expect(await talos(["destroy", "--name", "prod", "--take-over"])).toMatchObject({ code: 0 });
    expect([...platform.guests.keys()]).toEqual([]);
    const { takeLease } = await import("@gpve/talos/folder/lease.ts");
    const lease = takeLease(gpvectl.home, "prod");
    const busy = await talos(["apply", "--only", "infrastructure", "--yes"]);
    expect(busy).toMatchObject({ code: 8 });
    lease.release();
  });

  test("what preflight refuses is not begun", async () => {
    const platform = await start();
    platform.bridges = [];
    expect(await talos(["apply", "--yes"])).toMatchObject({ code: 1 });
    const json = await talos(["apply", "--yes", "-o", "json"]);
    expect(JSON.parse(json.out)).toMatchObject({ ok: false, steps: [] });
    expect(platform.done).toEqual([]);
  });
});
