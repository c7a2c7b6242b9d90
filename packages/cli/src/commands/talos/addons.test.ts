import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DEPLOYER_PRIVILEGES, FakePlatform, PlatformApi } from "@gpve/talos/testing/fake-platform.ts";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

let gpvectl: Gpvectl;
let platform: FakePlatform;
const env = { GPVE_TOKEN: "root@pam!t=1" };
const talos = (...args: readonly string[]) => gpvectl.run(["talos", ...args], { env });
const at = (...path: readonly string[]) => join(gpvectl.home, ...path);
const manifest = (value: string) => `apiVersion: v1
kind: ConfigMap
metadata: { name: settings }
data: { value: "${value}" }
---
apiVersion: v1
kind: Secret
metadata: { name: password }
stringData: { password: hush }
`;

beforeEach(async () => {
  gpvectl = await Gpvectl.create();
  platform = new FakePlatform();
  platform.privileges = () => DEPLOYER_PRIVILEGES;
  gpvectl.api.answer = (request) => new PlatformApi(platform).answer(request);
  const network = ["--network", "127.0.9.0/24", "--endpoint", "https://127.0.0.1:8006"];
  await talos("init", "--yes", "--name", "prod", "--nodes", "pve1", "--preset", "lab", ...network);
  const text = readFileSync(at("cluster.yaml"), "utf8");
  const extra = "addons:\n  extra: [{ name: mine, namespace: apps, manifest: mine.yaml }]\n";
  writeFileSync(at("cluster.yaml"), text.replace("addons:\n", extra));
  writeFileSync(at("mine.yaml"), manifest("one"));
});
afterEach(() => gpvectl[Symbol.asyncDispose]());

test("are in the plan with what is applied, held to what was fetched, and shown without secrets", async () => {
  expect(await talos("addons", "list")).toMatchObject({ code: 1 });
  const plan = await talos("plan");
  expect(plan).toMatchObject({ code: 0 });
  expect(plan.out).toContain("+ install mine 1 from mine.yaml\n    v1 Namespace apps\n");
  expect(plan.out).toContain("    v1 Secret apps/password");
  const listed = await talos("addons", "list");
  expect(listed).toMatchObject({ code: 0 });
  expect(listed.out).toMatch(/^mine +1 +3 +mine\.yaml/m);
  const json = JSON.parse((await talos("addons", "list", "-o", "json")).out) as { addons: object[] };
  expect(json.addons).toMatchObject([{ name: "mine", objects: 3 }]);
  writeFileSync(at("mine.yaml"), manifest("two"));
  const shown = await talos("addons", "show", "mine");
  expect(shown.out).toContain("value: one");
  expect(shown.out).not.toContain("hush");
  expect((await talos("addons", "update", "mine")).out).toContain("mine: 1 -> 1.");
  expect((await talos("addons", "show", "mine", "-o", "json")).out).toContain('"two"');
});

test("one that cannot be had is told before anything is touched, and an update that fails changes nothing", async () => {
  await talos("plan");
  const { rmSync } = await import("node:fs");
  rmSync(at("mine.yaml"));
  const failed = await talos("addons", "update", "mine");
  expect(failed.err).toContain("explain addon-unreachable");
  expect(await talos("addons", "list")).toMatchObject({ code: 0 });
  expect((await talos("addons", "show", "nothing")).err).toContain("asks for no add-on");
  expect((await talos("addons", "update", "nothing")).err).toContain("asks for no add-on");
  rmSync(at(".deployer"), { recursive: true });
  const applied = await talos("apply", "--yes", "-o", "json");
  expect(applied).toMatchObject({ code: 1 });
  // The image's source does not answer here either; that is only a warning.
  expect(JSON.parse(applied.out)).toMatchObject({
    ok: false,
    findings: [{ id: "image-source-silent" }, { id: "addon-unreachable" }],
  });
  expect(platform.done).toEqual([]);
  // A part that has nothing to do with it is not kept from its work.
  expect(await talos("apply", "--only", "infrastructure", "--yes")).toMatchObject({ code: 0 });
});
