import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { lbRecipe } from "./build-lb.ts";
import { LB_SCRIPTS } from "./lb-scripts.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-lb-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** What the script makes of the serial number that its machine was given. */
async function configured(serial: string) {
  const file = join(folder, "serial");
  writeFileSync(file, serial);
  const script = LB_SCRIPTS.find(({ path }) => path === "sbin/lb-config")?.text ?? "";
  expect(script).toContain("/sys/class/dmi/id/product_serial");
  const input = script.replaceAll("/sys/class/dmi/id/product_serial", file);
  return exec("sh", ["-s"], { input, okCodes: [0, 1] });
}

test("who is behind it becomes haproxy's configuration, addresses of both families", async () => {
  const { code, stdout } = await configured("gpve-lb 6443 10.0.0.10:6443 [fd00::11]:6443\n");
  expect(code).toBe(0);
  expect(stdout).toContain("    bind :::6443 v4v6\n");
  expect(stdout).toContain("    server 10.0.0.10:6443 10.0.0.10:6443\n");
  expect(stdout).toContain("    server [fd00::11]:6443 [fd00::11]:6443\n");
  expect(stdout).toContain("http-check expect rstatus ^(200|401|403)$\n");
});

test.each([
  "",
  "gpve-lb 6443",
  "Not Specified",
  "other 6443 10.0.0.1:6443",
  "gpve-lb 6443;stats 10.0.0.1:6443",
  "gpve-lb 6443 10.0.0.1:6443 $(reboot):1",
  "gpve-lb 6443 * 10.0.0.1:6443",
])("%j is nobody, and nothing is written", async (serial) => {
  expect(await configured(serial)).toMatchObject({ code: 1, stdout: "" });
});

test("its scripts are such, and none of them lets anybody in", async () => {
  for (const { text } of LB_SCRIPTS.filter(({ text: each }) => each.startsWith("#!")))
    await exec("sh", ["-n"], { input: text });
  const paths = LB_SCRIPTS.map(({ path }) => path);
  expect(new Set(paths).size).toBe(paths.length);
  expect(paths).not.toContain("sbin/ssh-server");
  expect(LB_SCRIPTS.find(({ path }) => path === "etc/inittab")?.text).not.toContain("/bin/sh");
  expect(lbRecipe(exec).name).toBe("lb");
});
