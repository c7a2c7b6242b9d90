import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { exec } from "./exec.ts";
import { identify, isAlive } from "./process-identity.ts";

test("passes arguments untouched: no shell reads them", async () => {
  const { stdout } = await exec("printf", ["%s|", "$(id)", "; rm -rf /", "a b"]);
  expect(stdout).toBe("$(id)|; rm -rf /|a b|");
});

test("feeds input, splits output into lines, and sees both streams", async () => {
  const lines: string[] = [];
  await exec("sh", ["-c", "cat; echo oops >&2; printf tail"], {
    input: "one\ntwo\n",
    onLine: (line, stream) => lines.push(`${stream}:${line}`),
  });
  expect(lines.toSorted()).toEqual(["stderr:oops", "stdout:one", "stdout:tail", "stdout:two"]);
});

test("hands on more lines than it would keep, when it keeps none", async () => {
  let lines = 0;
  const options = { maxOutputBytes: 1_000, onLine: () => void lines++ };
  const { stdout } = await exec("seq", ["2000"], { ...options, keepOutput: false });
  expect([lines, stdout]).toEqual([2000, ""]);
  await expect(exec("seq", ["2000"], options)).rejects.toThrow("more than 1000 bytes");
});

test("names program, exit code and last words of a failure", async () => {
  await expect(exec("sh", ["-c", "echo no such disk >&2; exit 3"])).rejects.toThrow(
    "sh failed with exit code 3: no such disk",
  );
  expect((await exec("sh", ["-c", "exit 3"], { okCodes: [0, 3] })).code).toBe(3);
  await expect(exec("sh", ["-c", "kill -9 $$"])).rejects.toThrow("was killed by SIGKILL");
});

test("says so when the program is not installed", async () => {
  for (const diesWithUs of [false, true])
    await expect(exec("gpve-no-such-program", [], { diesWithUs })).rejects.toMatchObject({
      code: "feature.unsupported",
      message: "cannot run gpve-no-such-program: it is not installed",
    });
});

test("is followed by those that die with us", async () => {
  const script = `import { exec } from ${JSON.stringify(new URL("exec.ts", import.meta.url).href)};
    void exec("sh", ["-c", "echo $$; exec sleep 60"], { diesWithUs: true, onLine: (line) => console.log(line) });`;
  let pid = 0;
  const parent = exec(process.execPath, ["--input-type=module", "-e", script], {
    okCodes: [128],
    onLine: (line) => (pid = Number(line)),
  });
  await vi.waitFor(() => expect(pid).toBeGreaterThan(0), { timeout: 30_000 });
  const sleeping = identify(pid);
  if (sleeping === undefined) throw new Error("it does not run");
  const { ppid } = /PPid:\s+(?<ppid>\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.groups ?? {};
  process.kill(Number(ppid), "SIGKILL");
  await expect(parent).rejects.toThrow("was killed by SIGKILL");
  await vi.waitFor(() => expect(isAlive(sleeping)).toBe(false), { timeout: 30_000 });
});

test("is not outlived by those who come too late to die with us", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-exec-"));
  // A machine so busy that we are gone before the kernel is asked for anything.
  writeFileSync(
    join(folder, "setpriv"),
    `#!/bin/sh
while test "$(cut -d ' ' -f 4 /proc/$$/stat)" = "$PARENT"; do sleep 0.02; done
PATH=/usr/bin:/bin exec setpriv "$@"
`,
    { mode: 0o755 },
  );
  const script = `import { exec } from ${JSON.stringify(new URL("exec.ts", import.meta.url).href)};
    const env = { PATH: process.argv[1] + ":/usr/bin:/bin", PARENT: String(process.pid) };
    void exec("touch", [process.argv[1] + "/made"], { diesWithUs: true, env });
    process.kill(process.pid, "SIGKILL");`;
  try {
    const args = ["--input-type=module", "-e", script, folder];
    await expect(exec(process.execPath, args)).rejects.toThrow("was killed by SIGKILL");
    await vi.waitFor(() => expect(isSomebodyAt(folder)).toBe(false), { timeout: 30_000 });
    expect(existsSync(join(folder, "made"))).toBe(false);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("stops on time-out, on cancel and on too much output", async () => {
  await expect(exec("sleep", ["30"], { timeoutMs: 30 })).rejects.toMatchObject({ code: "request.timeout" });
  const abort = new AbortController();
  const running = exec("sleep", ["30"], { signal: abort.signal });
  abort.abort();
  await expect(running).rejects.toMatchObject({ code: "operation.cancelled" });
  await expect(exec("true", [], { signal: abort.signal })).rejects.toMatchObject({
    code: "operation.cancelled",
  });
  await expect(exec("yes", [], { maxOutputBytes: 1000 })).rejects.toThrow("more than 1000 bytes");
});

test("does not wait for what a stopped program left in the background", async () => {
  let left: number | undefined;
  const abort = new AbortController();
  const stopped = exec("sh", ["-c", "sleep 600 & echo $!; wait"], {
    signal: abort.signal,
    onLine: (line) => {
      left = Number(line);
      abort.abort();
    },
  });
  await expect(stopped).rejects.toMatchObject({ code: "operation.cancelled" });
  if (left !== undefined) process.kill(left);
});

test("puts together a character that comes in two pieces", async () => {
  const lines: string[] = [];
  await exec("sh", ["-c", "printf 'a\\303'; sleep 0.2; printf '\\244b\\n'"], {
    onLine: (line) => lines.push(line),
  });
  expect(lines).toEqual(["aäb"]);
});

test("gives children a minimal environment", async () => {
  const { stdout } = await exec("env", []);
  expect(
    stdout
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => line.split("=")[0] ?? "")
      .toSorted(),
  ).toEqual(["LC_ALL", "PATH"]);
});

/** Whether a process has this among its arguments. */
function isSomebodyAt(argument: string): boolean {
  return readdirSync("/proc").some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(argument);
    } catch {
      return false; // It ended while we looked.
    }
  });
}
