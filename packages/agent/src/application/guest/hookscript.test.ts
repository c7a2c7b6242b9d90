import { expect, test } from "vitest";
import { runHook, type HookscriptPorts } from "./hookscript.ts";

const runs: string[] = [];
let [code, exists, executable] = [0, true, true];
const host = {
  storages: {
    plugin: () => ({
      activate: async () => undefined,
      path: (volname: string) => `/store/${volname}`,
      file: async (volname: string) => `/store/${volname}`,
      parse: (volname: string) => ({ type: volname.split("/")[0] }),
    }),
    definition: () => ({ options: { content: "snippets,iso" } }),
  },
  files: {
    exists: () => exists,
    isExecutable: () => executable,
  },
  scripts: {
    run: async (path: string, args: readonly string[], { log }: { log: (line: string) => void }) => {
      runs.push([path, ...args].join(" "));
      log("hello");
      return code;
    },
  },
} as unknown as HookscriptPorts;

test("a hook script gets the VMID and the phase, and is heard", async () => {
  const lines: string[] = [];
  const log = (line: string): void => void lines.push(line);
  await runHook(host, 100, {}, "pre-start", { log });
  await runHook(host, 100, { hookscript: "local:snippets/h.pl" }, "post-start", { log });
  expect(runs).toEqual(["/store/snippets/h.pl 100 post-start"]);
  expect(lines).toEqual(["hello"]);
});

test("only a failing pre-start stops the start", async () => {
  code = 3;
  const lines: string[] = [];
  const log = (line: string): void => void lines.push(line);
  const values = { hookscript: "local:snippets/h.pl" };
  await expect(runHook(host, 100, values, "pre-start", { log })).rejects.toThrow(
    "hookscript error for 100 on pre-start: command '/store/snippets/h.pl 100 pre-start' failed: exit code 3",
  );
  await runHook(host, 100, values, "post-stop", { log });
  const failed = "command '/store/snippets/h.pl 100 post-stop' failed: exit code 3";
  expect(lines).toEqual(["hello", "hello", `hookscript error for 100 on post-stop: ${failed}`]);
  executable = false;
  await expect(runHook(host, 100, values, "pre-start", { log })).rejects.toThrow(
    "on pre-start: script 'local:snippets/h.pl' is not executable",
  );
  exists = false;
  await expect(runHook(host, 100, values, "pre-start", { log })).rejects.toThrow(
    "on pre-start: script 'local:snippets/h.pl' does not exist",
  );
});
