import { describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { madeUpExec, madeUpFiles } from "../../testing/made-up-host.ts";
import { findKata, kataCapability, requireKata } from "./find-kata.ts";

const CONFIG = "/opt/kata/share/defaults/kata-containers/configuration.toml";
const whole = {
  "/opt/kata/bin/containerd-shim-kata-v2": "",
  "/opt/kata/bin/kata-runtime": "",
  [CONFIG]: "[runtime]\nsandbox_cgroup_only=true\n",
};
const works = { "/opt/kata/bin/kata-runtime --config": "System is capable of running Kata Containers" };

const hostOf = (
  files: Readonly<Record<string, string>> = whole,
  programs: Parameters<typeof madeUpExec>[0] = works,
) => ({ exec: madeUpExec(programs), files: madeUpFiles(files) });
const without = (path: string) => Object.fromEntries(Object.entries(whole).filter(([each]) => each !== path));

describe("a Kata that works", () => {
  test("is found where its release puts it, and asked whether this host can run it", async () => {
    const found = await findKata(hostOf());
    expect(found).toEqual({ shim: "/opt/kata/bin/containerd-shim-kata-v2", config: CONFIG });
    expect(await kataCapability(hostOf())).toMatchObject({ name: "kata", available: true });
    const find = () => findKata(hostOf());
    await expect(requireKata(find, async () => true)).resolves.toBeUndefined();
    await expect(requireKata(find, async () => false)).rejects.toThrow("KVM does not work");
  });

  test.each([
    ["/opt/kata/bin/containerd-shim-kata-v2", "containerd-shim-kata-v2 is in none of /usr/local/bin"],
    ["/opt/kata/bin/kata-runtime", "kata-runtime is in none of"],
    [CONFIG, "Kata has no settings: none of /etc/kata-containers/configuration.toml"],
  ])("is not there without %s", async (path, why) => {
    const refused = await kataCapability(hostOf(without(path)));
    expect(refused).toMatchObject({ available: false, detail: expect.stringContaining(why) as string });
    expect(refused.fix).toContain("install Kata Containers");
  });

  test("must keep the machines of pods within the bounds of their worker", async () => {
    const loose = { ...whole, [CONFIG]: "[runtime]\nsandbox_cgroup_only=false\n" };
    expect(await kataCapability(hostOf(loose))).toMatchObject({
      available: false,
      fix: expect.stringContaining("set sandbox_cgroup_only=true") as string,
    });
    const more = CONFIG.replace("configuration.toml", "config.d/10-own.toml");
    await expect(
      findKata(hostOf({ ...loose, [more]: "[runtime]\nsandbox_cgroup_only = true\n" })),
    ).resolves.toBeDefined();
  });

  test("is none when its own check fails, and a request is told all of it", async () => {
    const fails = hostOf(whole, {
      "/opt/kata/bin/kata-runtime --config": () => {
        throw new AppError("operation.failed", "kata-runtime: CPU property vmx is missing");
      },
    });
    const find = () => findKata(fails);
    await expect(requireKata(find, async () => true)).rejects.toThrow(
      /spec.isolationLevel: L2 needs Kata Containers \(containerd-shim-kata-v2.*vmx is missing. L1 \(runc\)/,
    );
  });
});
