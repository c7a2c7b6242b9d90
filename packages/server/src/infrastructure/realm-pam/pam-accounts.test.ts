import { describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec, ExecOptions } from "@gpve/kit/exec.ts";
import { createPamAccounts } from "./pam-accounts.ts";

interface Call {
  file: string;
  args: readonly string[];
  options: ExecOptions | undefined;
}

function recording(answer: () => { code: number; stderr?: string }): { exec: Exec; calls: Call[] } {
  const calls: Call[] = [];
  const exec: Exec = (file, args, options) => {
    calls.push({ file, args, options });
    const { code, stderr = "" } = answer();
    return Promise.resolve({ code, stdout: "", stderr });
  };
  return { exec, calls };
}

describe("accounts of the host", () => {
  test("are checked by pamtester, the password on its input only", async () => {
    const { exec, calls } = recording(() => ({ code: 0 }));
    const signal = new AbortController().signal;
    expect(await createPamAccounts({ exec }).authenticate("dan", "p w", signal)).toEqual({ ok: true });
    expect(calls[0]).toMatchObject({
      file: "pamtester",
      args: ["other", "dan", "authenticate", "acct_mgmt"],
      options: { input: "p w\n", signal },
    });
    expect(JSON.stringify(calls[0]?.args)).not.toContain("p w");
  });

  test("a refusal carries PAM's last words", async () => {
    const { exec, calls } = recording(() => ({
      code: 1,
      stderr: "Password: \npamtester: Authentication failure\n",
    }));
    expect(await createPamAccounts({ exec, service: "login" }).authenticate("dan", "x")).toEqual({
      ok: false,
      reason: "PAM: pamtester: Authentication failure",
    });
    expect(calls[0]?.args[0]).toBe("login");
  });

  test.each([
    ["-o", "x"],
    ["a b", "x"],
    ["", "x"],
    ["dan", ""],
    ["dan", "a\nb"],
    ["dan", "x".repeat(600)],
  ])("%j with %j is not even tried", async (user, password) => {
    const { exec, calls } = recording(() => ({ code: 0 }));
    expect(await createPamAccounts({ exec }).authenticate(user, password)).toMatchObject({ ok: false });
    expect(calls).toEqual([]);
  });

  test("a missing pamtester says how to get it; other trouble speaks for itself", async () => {
    const missing: Exec = () => Promise.reject(new AppError("feature.unsupported", "not installed"));
    expect(await createPamAccounts({ exec: missing }).authenticate("dan", "x")).toEqual({
      ok: false,
      reason: "pamtester is not installed: apt-get install pamtester",
    });
    const slow: Exec = () => Promise.reject(new AppError("request.timeout", "too slow"));
    expect(await createPamAccounts({ exec: slow }).authenticate("dan", "x")).toEqual({
      ok: false,
      reason: "too slow",
    });
  });

  test("passwords are changed through the input of chpasswd", async () => {
    const { exec, calls } = recording(() => ({ code: 0 }));
    const accounts = createPamAccounts({ exec });
    await accounts.setPassword("dan", "new:one", new AbortController().signal);
    expect(calls[0]).toMatchObject({ file: "chpasswd", args: [], options: { input: "dan:new:one\n" } });
    await expect(accounts.setPassword("dan", "a\nroot:x")).rejects.toThrow("line breaks");
  });
});
