// Backups by command, on a platform in memory whose machines nobody answers for.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DEPLOYER_PRIVILEGES, FakePlatform, PlatformApi } from "@gpve/talos/testing/fake-platform.ts";
import { Gpvectl } from "../../../testing/run-gpvectl.ts";

let gpvectl: Gpvectl;
let platform: FakePlatform;
const env = { GPVE_TOKEN: "root@pam!t=1" };
const talos = (args: readonly string[], answers: readonly string[] = []) =>
  gpvectl.run(["talos", ...args], { env, answers });
const at = (...path: readonly string[]) => join(gpvectl.home, ...path);
const backup = (...args: readonly string[]) => talos(["backup", ...args, "--storage", "local"]);

beforeEach(async () => {
  gpvectl = await Gpvectl.create();
  platform = new FakePlatform();
  platform.privileges = () => DEPLOYER_PRIVILEGES;
  gpvectl.api.answer = (request) => new PlatformApi(platform).answer(request);
  const place = ["--endpoint", "https://127.0.0.1:8006", "--network", "127.0.9.0/24", "--vip", "127.0.9.9"];
  await talos(["init", "--yes", "--name", "prod", "--nodes", "pve1", "--preset", "lab", ...place]);
  await talos(["set", "image.factory=http://127.0.0.1:9"]);
  await talos(["apply", "--only", "infrastructure", "--yes"]);
});
afterEach(() => gpvectl[Symbol.asyncDispose]());

test("machines are backed up, listed and brought back, and what may not be is told by its finding", async () => {
  expect((await backup("list")).err).toContain("There are no backups");
  const made = await backup("machines", "prod-worker-1");
  expect(made).toMatchObject({ code: 0 });
  expect(made.out).toMatch(/^prod-worker-1: local:backup\/vzdump-qemu-3000-.*\nBacked up 1 machine\.$/m);
  expect((await backup("list")).out).toMatch(/prod-worker-1 .*local:backup\/vzdump-qemu-3000-/);
  expect(JSON.parse((await backup("list", "--json")).out)).toMatchObject([{ machine: "prod-worker-1" }]);
  expect(readFileSync(at(".deployer/prod/journal.ndjson"), "utf8")).toContain("guest.backup prod-worker-1");

  const plane = await backup("restore", "prod-cp-1", "--yes");
  expect(plane).toMatchObject({ code: 7 });
  expect(plane.err).toContain("explain backup-of-control-plane");
  const answered = await talos(["backup", "restore", "prod-worker-1", "--storage", "local"], ["no"]);
  expect(answered).toMatchObject({ code: 2 });
  expect(platform.done.filter((line) => line.endsWith("POST /nodes/pve1/qemu"))).toHaveLength(2);

  const restored = await backup("restore", "prod-worker-1", "--yes", "--outside");
  expect(restored.err).toContain("prod-worker-1 is back from local:backup/vzdump-qemu-3000-");
  expect(platform.guests.get(3000)).toMatchObject({ status: "running" });
});

test("the deployer's own files are copied, and put back into an empty folder or over what is there", async () => {
  const copied = await talos(["backup", "files", "copies", "--json"]);
  const { copy, files } = JSON.parse(copied.out) as { copy: string; files: readonly string[] };
  expect(files).toEqual([
    "cluster.yaml",
    "secrets.enc.yaml",
    ".deployer/prod/lock.json",
    ".deployer/prod/journal.ndjson",
  ]);
  const file = readFileSync(at("cluster.yaml"), "utf8");
  writeFileSync(at("cluster.yaml"), "gone\n");
  rmSync(at(".deployer/prod/lock.json"));
  const back = await talos(["backup", "unpack", copy]);
  expect(back).toMatchObject({ code: 0 });
  expect(back.out).toContain("what was there is in");
  expect(readFileSync(at("cluster.yaml"), "utf8")).toBe(file);
  expect((await talos(["validate"])).code).toBe(0);
  expect((await talos(["backup", "unpack", copy, "--into", "new"])).out).toMatch(/Put back into .*new\.$/m);
  expect(readdirSync(at("new"))).toContain("secrets.enc.yaml");
  // Those that are kept before each change are of the same form.
  const [before = ""] = readdirSync(at(".deployer/prod/before"));
  expect((await talos(["backup", "unpack", `.deployer/prod/before/${before}`])).code).toBe(0);

  writeFileSync(join(copy, "cluster.yaml"), "changed\n");
  const refused = await talos(["backup", "unpack", copy]);
  expect(refused.code).not.toBe(0);
  expect(refused.err).toContain("explain copy-damaged");
  expect(readFileSync(at("cluster.yaml"), "utf8")).not.toContain("changed");
});
