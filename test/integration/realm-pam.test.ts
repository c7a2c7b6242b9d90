// The host's real PAM, with an account of this test's own.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { createPamAccounts } from "@gpve/server/infrastructure/realm-pam/pam-accounts.ts";

const has = async (file: string, args: readonly string[]): Promise<boolean> => {
  try {
    await exec(file, args, { okCodes: Array.from({ length: 256 }, (_, code) => code) });
    return true;
  } catch {
    return false;
  }
};
const isRoot = process.getuid?.() === 0;
const ready = isRoot && (await has("pamtester", [])) && (await has("useradd", ["--help"]));
if (!ready) {
  console.warn("SKIPPED real PAM: needs root and pamtester (apt-get install pamtester passwd)");
}

describe.skipIf(!ready)("the host's PAM", () => {
  const user = `gpve-t${randomBytes(4).toString("hex")}`;
  const accounts = createPamAccounts({ exec });
  beforeAll(async () => {
    await exec("useradd", ["--no-create-home", "--shell", "/usr/sbin/nologin", user]);
  });
  afterAll(async () => {
    await exec("userdel", [user]);
  });

  test("knows the password that was set, and only that", async () => {
    await accounts.setPassword(user, "Secret: 123");
    expect(await accounts.authenticate(user, "Secret: 123")).toEqual({ ok: true });
    expect(await accounts.authenticate(user, "secret: 123")).toMatchObject({ ok: false });
    await accounts.setPassword(user, "another-1");
    expect(await accounts.authenticate(user, "Secret: 123")).toMatchObject({ ok: false });
    expect(await accounts.authenticate(user, "another-1")).toEqual({ ok: true });
  });

  test("refuses locked and expired accounts, and nobody", async () => {
    await accounts.setPassword(user, "another-1");
    await exec("chage", ["-E", "1", user]);
    expect(await accounts.authenticate(user, "another-1")).toMatchObject({ ok: false });
    await exec("chage", ["-E", "-1", user]);
    await exec("usermod", ["-L", user]);
    expect(await accounts.authenticate(user, "another-1")).toMatchObject({ ok: false });
    expect(await accounts.authenticate(`${user}x`, "another-1")).toMatchObject({ ok: false });
  });

  test("the login service works the same way", async () => {
    await accounts.setPassword(user, "third-one");
    const login = createPamAccounts({ exec, service: "login" });
    expect(await login.authenticate(user, "third-one")).toEqual({ ok: true });
  });
});
