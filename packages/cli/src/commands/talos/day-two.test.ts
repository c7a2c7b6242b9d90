// Commands of day two, on a platform in memory whose machines nobody answers for: what needs a cluster says so.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DEPLOYER_PRIVILEGES, FakePlatform, PlatformApi } from "@gpve/talos/testing/fake-platform.ts";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

let gpvectl: Gpvectl;
let platform: FakePlatform;
const env = { GPVE_TOKEN: "root@pam!t=1" };
const talos = (args: readonly string[], answers: readonly string[] = []) =>
  gpvectl.run(["talos", ...args], { env, answers });
const at = (...path: readonly string[]) => join(gpvectl.home, ...path);

beforeEach(async () => {
  gpvectl = await Gpvectl.create();
  platform = new FakePlatform();
  platform.privileges = () => DEPLOYER_PRIVILEGES;
  gpvectl.api.answer = (request) => new PlatformApi(platform).answer(request);
  const init = ["init", "--yes", "--name", "prod", "--nodes", "pve1,pve2,pve3", "--preset", "lab"];
  await talos([
    ...init,
    "--endpoint",
    "https://127.0.0.1:8006",
    "--network",
    "127.0.9.0/24",
    "--vip",
    "127.0.9.9",
  ]);
  await talos(["set", "image.factory=http://127.0.0.1:9"]);
  await talos(["apply", "--only", "infrastructure", "--yes"]);
});
afterEach(() => gpvectl[Symbol.asyncDispose]());

test("status and verify say what is wrong, to people, programs and as a page", async () => {
  const status = await talos(["status"]);
  expect(status).toMatchObject({ code: 1 });
  expect(status.out).toMatch(/prod-cp-1 +pve1 +2000 +127\.0\.9\.10 +silent/);
  expect(status.out).toContain("✗ etcd is healthy (it does not run)");
  expect(JSON.parse((await talos(["status", "-o", "json"])).out)).toMatchObject({ isHealthy: false });
  expect(JSON.parse((await talos(["status", "--json"])).out)).toMatchObject({ isHealthy: false });
  expect((await talos(["status", "--html"])).out).toContain("Wrote status.html.");
  expect(await talos(["status", "--html", "page.html"])).toMatchObject({ code: 1 });
  expect(readFileSync(at("page.html"), "utf8")).toContain("<title>prod</title>");
  const verified = await talos(["verify"]);
  expect(verified).toMatchObject({ code: 1 });
  expect(verified.out).toContain("✓ machines run (2 of 2)");
  expect(JSON.parse((await talos(["verify", "-o", "json"])).out)).toMatchObject({ ok: false });
  expect(JSON.parse((await talos(["verify", "--json"])).out)).toMatchObject({ ok: false });
});

test.each([["status"], ["verify", "--outside"], ["drift"], ["destroy", "--name", "prod"]])(
  "%s of a cluster that was never made makes no secrets",
  async (...args) => {
    await talos(["set", "protect.destroy=false"]);
    const file = at("secrets.enc.yaml");
    rmSync(file);
    writeFileSync(at(".deployer", "prod", "lock.json"), "");
    rmSync(at(".deployer"), { recursive: true });
    platform.guests.clear();
    const { out, err } = await talos(args);
    expect(err).not.toContain("secrets");
    expect(out).not.toBe("");
    expect(existsSync(file)).toBe(false);
  },
);

test("a cluster is destroyed only unprotected and by its name", async () => {
  await talos(["set", "protect.destroy=true"]);
  const refused = await talos(["destroy", "--name", "prod"]);
  expect(refused).toMatchObject({ code: 4 });
  expect(refused.err).toContain("explain destroy-protected");
  await talos(["set", "protect.destroy=false"]);
  const wrong = await talos(["destroy"], ["prd"]);
  expect(wrong).toMatchObject({ code: 2 });
  expect(platform.guests.size).toBe(2);
  const gone = await talos(["destroy"], ["prod"]);
  expect(gone).toMatchObject({ code: 0 });
  expect(gone.out).toContain("prod is gone");
  expect(platform.guests.size).toBe(0);
});

test("lost state is rebuilt from what is there", async () => {
  const lock = readFileSync(at(".deployer/prod/lock.json"), "utf8");
  rmSync(at(".deployer"), { recursive: true });
  expect((await talos(["adopt"])).out).toContain("Adopted 2 machines");
  const after = JSON.parse(readFileSync(at(".deployer/prod/lock.json"), "utf8")) as { machines: unknown };
  expect(after.machines).toEqual((JSON.parse(lock) as { machines: unknown }).machines);
});

test("what needs an etcd says so, and damaged snapshots are refused", async () => {
  const snapshot = await talos(["etcd", "snapshot"]);
  expect(snapshot.err).toContain("explain etcd-unhealthy");
  writeFileSync(at("bad.snapshot"), "nothing");
  const restore = await talos(["etcd", "restore", "bad.snapshot"]);
  expect(restore.err).toContain("explain snapshot-damaged");
});

test("machines to reset must be known, and nothing is wiped that was not agreed to", async () => {
  expect(await talos(["reset", "prod-worker-7", "--yes"])).toMatchObject({ code: 5 });
  const no = await talos(["reset", "prod-worker-1"], ["no"]);
  expect(no.out).toContain("Nothing was changed.");
  expect(readFileSync(at(".deployer/prod/lock.json"), "utf8")).not.toContain("resetting");
});

test("authorities are replaced only where there are machines that have them", async () => {
  const early = await talos(["rotate-ca", "--yes"]);
  expect(early.code).not.toBe(0);
  expect(early.err).toContain("explain rotation-early");
  const path = at(".deployer/prod/lock.json");
  const lock = JSON.parse(readFileSync(path, "utf8")) as object;
  writeFileSync(path, JSON.stringify({ ...lock, appliedAt: "2026-01-01T00:00:00Z" }));
  const secrets = readFileSync(at("secrets.enc.yaml"), "utf8");
  const no = await talos(["rotate-ca", "--talos"], ["no"]);
  expect(no.out).toContain("every machine accepts the new authorities");
  expect(no.out).toContain("Nothing was changed.");
  expect(readFileSync(at("secrets.enc.yaml"), "utf8")).toBe(secrets);
});

test("drift is told to people and programs, and mended by applying the file", async () => {
  const guest = platform.guests.get(3000);
  if (guest === undefined) throw new Error("no worker");
  guest.config["tags"] = `${guest.config["tags"]};mine`;
  const told = await talos(["drift"]);
  expect(told).toMatchObject({ code: 2 });
  expect(told.out).toContain("prod-worker-1: settings: tags is");
  expect(JSON.parse((await talos(["drift", "-o", "json"])).out)).toMatchObject({ ok: false });
  const asked = await talos(["drift", "--mend"], ["no"]);
  expect(asked.out).toContain("~ change prod-worker-1: tags");
  expect(asked.out).toContain("Nothing was changed.");
});

test("updates that nobody tells of are said to be unknown", async () => {
  const asked = await talos(["check-updates"]);
  expect(asked.code).not.toBe(0);
  expect(asked.err).toContain("explain updates-unknown");
});

test("snapshots are scheduled by systemd or cron, without the token in it", async () => {
  const units = await talos(["etcd", "schedule"]);
  expect(units.out).toContain("OnCalendar=*-*-* 0/6:0:00");
  expect(units.out).not.toContain(env.GPVE_TOKEN);
  expect((await talos(["etcd", "schedule", "--format", "cron"])).out).toMatch(/^0 \*\/6 \* \* \* set -a/);
  expect((await talos(["etcd", "schedule", "--out", "units"])).out).toContain("systemctl enable --now");
  expect(readFileSync(at("units/gpve-talos-prod-snapshot.timer"), "utf8")).toContain("Persistent=yes");
  const refused = await talos(["set", "backup.etcd.schedule=every day"]);
  expect(refused.err).toContain("explain schedule-invalid");
});

test("a snapshot is verified by name, or the last one", async () => {
  expect((await talos(["etcd", "verify"])).err).toContain("no snapshot was taken yet");
  const content = Buffer.from("members");
  writeFileSync(at("good.snapshot"), Buffer.concat([content, createHash("sha256").update(content).digest()]));
  expect((await talos(["etcd", "verify", "good.snapshot"])).out).toContain("is whole");
  writeFileSync(at("bad.snapshot"), "nothing");
  expect((await talos(["etcd", "verify", "bad.snapshot"])).err).toContain("explain snapshot-damaged");
});

test("a drill needs a snapshot that is whole and a free place, and is asked for", async () => {
  expect((await talos(["etcd", "drill", "--ip", "127.0.9.250"])).err).toContain("no snapshot was taken yet");
  const content = Buffer.from("members");
  const whole = Buffer.concat([content, createHash("sha256").update(content).digest()]);
  writeFileSync(at("good.snapshot"), whole);
  const asked = await talos(["etcd", "drill", "good.snapshot", "--ip", "127.0.9.250"], ["no"]);
  expect(asked).toMatchObject({ code: 1 });
  expect(asked.out).toContain("Nothing was changed.");
  const taken = await talos(
    ["etcd", "drill", "good.snapshot", "--ip", "127.0.9.10", "--vmid", "2000"],
    ["yes"],
  );
  expect(taken).toMatchObject({ code: 1 });
  expect(taken.out + taken.err).toMatch(/vmid-taken|address-taken/);
  expect(platform.guests.size).toBe(2);
});

test("machines to replace must be known, counts and versions are written into the file", async () => {
  expect(await talos(["replace", "prod-worker-7", "--yes"])).toMatchObject({ code: 5 });
  expect(await talos(["replace", "--yes"])).toMatchObject({ code: 2 });
  const no = await talos(["replace", "--all"], ["no"]);
  expect(no.out).toContain("Nothing was changed.");
  expect(readFileSync(at(".deployer/prod/lock.json"), "utf8")).not.toContain('prod-worker-1"]');
  const scaled = await talos(["scale", "worker=2"], ["no"]);
  expect(scaled.err).toContain("Changed cluster.yaml: pools.worker.count=2");
  expect(scaled.out).toContain("create prod-worker-2");
  const upgraded = await talos(["upgrade", "talos", "v1.13.10"], ["no"]);
  expect(upgraded.err).toContain("versions.talos=v1.13.10");
  expect(readFileSync(at("cluster.yaml"), "utf8")).toContain("talos: v1.13.10");
});

test("a load balancer is turned only to a cluster that is well, and only when it is ours", async () => {
  const none = await talos(["switch", "cluster.yaml", "--yes"]);
  expect(none.code).not.toBe(0);
  expect(none.err).toContain("explain front-missing");
  const balancer = "loadBalancer: { address: 127.0.9.9, backendsManaged: haproxy }";
  const text = readFileSync(at("cluster.yaml"), "utf8");
  writeFileSync(at("cluster.yaml"), text.replace(/vip: [\d.]+/, balancer));
  writeFileSync(at("haproxy.cfg"), "as it was");
  const unwell = await talos(["switch", "cluster.yaml", "--yes"]);
  expect(unwell.code).not.toBe(0);
  expect(unwell.err).toContain("explain front-unready");
  expect(readFileSync(at("haproxy.cfg"), "utf8")).toBe("as it was");
});

test("a VIP is handed only to another cluster that names it and is well", async () => {
  const text = readFileSync(at("cluster.yaml"), "utf8");
  const fronted = (holds: boolean) =>
    text.replace(/vip: [\d.]+/, (own) => `${own}\n  front: { vip: 127.0.9.8, holds: ${holds} }`);
  writeFileSync(at("cluster.yaml"), fronted(true));
  const itself = await talos(["switch", "cluster.yaml", "--yes"]);
  expect(itself.err).toContain("explain front-unnamed");
  writeFileSync(at("green.yaml"), fronted(false).replace(/name: prod\b/, "name: green"));
  const unwell = await talos(["switch", "green.yaml", "--yes"]);
  expect(unwell.code).not.toBe(0);
  expect(unwell.err).toContain("explain front-unready");
  expect(readFileSync(at("cluster.yaml"), "utf8")).toBe(fronted(true));
});
