import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec, type Exec } from "@gpve/kit/exec.ts";
import { describe, expect, test } from "vitest";
import { keepMountNamespace } from "./keep-mount-namespace.ts";

describe("a mount namespace that is kept as a file", () => {
  const world = (takes: (argv: readonly string[]) => boolean) => {
    const asked: string[] = [];
    const run: Exec = (file, args) => {
      asked.push([file, ...args].join(" "));
      if (takes([file, ...args])) return Promise.resolve({ stdout: "", stderr: "", code: 0 });
      return Promise.reject(new Error("unshare failed: Invalid argument"));
    };
    return { asked, run };
  };

  test("is made where the agent happens to run, if the kernel takes it", async () => {
    const { asked, run } = world(() => true);
    await keepMountNamespace(run, "/v/mnt", 4);
    expect(asked).toEqual(["unshare --mount=/v/mnt --propagation slave true"]);
  });

  test("is made on each processor in turn where it is refused", async () => {
    const { asked, run } = world((argv) => argv.includes("2"));
    await keepMountNamespace(run, "/v/mnt", 4);
    expect(asked.slice(1)).toEqual(
      [0, 1, 2].map((at) => `taskset --cpu-list ${at} unshare --mount=/v/mnt --propagation slave true`),
    );
  });

  test("says why it was refused where no processor makes one", async () => {
    const { asked, run } = world(() => false);
    await expect(keepMountNamespace(run, "/v/mnt", 2)).rejects.toThrow("Invalid argument");
    expect(asked).toHaveLength(3);
  });

  test.skipIf(process.getuid?.() !== 0)("is kept by a real kernel", async () => {
    const folder = mkdtempSync(join(tmpdir(), "gpve-view-"));
    const file = join(folder, "mnt");
    writeFileSync(file, "");
    await exec("mount", ["--bind", folder, folder]);
    try {
      await exec("mount", ["--make-private", folder]);
      await keepMountNamespace(exec, file);
      const kept = await exec("nsenter", [`--mount=${file}`, "readlink", "/proc/self/ns/mnt"]);
      expect(kept.stdout).toMatch(/^mnt:/);
      expect(kept.stdout).not.toBe((await exec("readlink", ["/proc/self/ns/mnt"])).stdout);
    } finally {
      await exec("umount", ["--recursive", folder]);
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
