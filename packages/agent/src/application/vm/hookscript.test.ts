import { expect, test } from "vitest";
import type { VmHost } from "./vm-host.ts";
import { runHook } from "./hookscript.ts";

const runs: string[] = [];
let failure: Error | undefined;
const host = {
  storages: {
    plugin: () => ({ activate: async () => undefined, path: (volname: string) => `/store/${volname}` }),
  },
  runScript: async (path: string, args: readonly string[]) => {
    runs.push([path, ...args].join(" "));
    if (failure !== undefined) throw failure;
    return "hello\n";
  },
} as unknown as VmHost;

test("a hook script gets the VMID and the phase, and is heard", async () => {
  const lines: string[] = [];
  const log = (line: string): void => void lines.push(line);
  await runHook(host, 100, {}, "pre-start", { log });
  await runHook(host, 100, { hookscript: "local:snippets/h.pl" }, "post-start", { log });
  expect(runs).toEqual(["/store/snippets/h.pl 100 post-start"]);
  expect(lines).toEqual(["hello"]);
});

test("only a failing pre-start stops the start", async () => {
  failure = new Error("exit code 1");
  const lines: string[] = [];
  const log = (line: string): void => void lines.push(line);
  const values = { hookscript: "local:snippets/h.pl" };
  await expect(runHook(host, 100, values, "pre-start", { log })).rejects.toThrow(
    "hookscript error for 100 on pre-start: exit code 1",
  );
  await runHook(host, 100, values, "post-stop", { log });
  expect(lines).toEqual(["hookscript error for 100 on post-stop: exit code 1"]);
});
