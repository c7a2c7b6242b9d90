import { describe, expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

const upid = "UPID:n1:1:";

async function withComponents(): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  const base = "/api/v1/nodes/n1/components";
  ctl.api
    .pve("GET /nodes", [{ node: "n1", status: "online" }])
    .pve(`GET /nodes/n1/tasks/${upid}/status`, { status: "stopped", exitstatus: "OK" })
    .pve(`GET /nodes/n1/tasks/${upid}/log`, [{ n: 1, t: "building kubelet" }], 1)
    .on(`GET ${base}`, {
      body: {
        components: [
          {
            name: "kubernetes",
            about: "control plane",
            version: "1.36.4",
            ways: ["download", "go"],
            installed: "go",
            sizeBytes: 1024,
          },
          { name: "runc", about: "starts a container", version: "debian", ways: ["debian"] },
        ],
      },
    })
    .on(`POST ${base}/kubernetes/install`, { body: { task: upid } })
    .on(`POST ${base}/kubernetes/verify`, { body: { task: upid } })
    .on(`POST ${base}/kubernetes/import`, { body: { task: upid } });
  return ctl;
}

describe("gpvectl component", () => {
  test("list shows versions, ways and what is there", async () => {
    await using ctl = await withComponents();
    const { out } = await ctl.run(["component", "list"]);
    expect(out).toMatch(/^kubernetes +1.36.4 +go +1.0 KiB +download,go +control plane$/m);
    expect(out).toMatch(/^runc +debian +- +- +debian +starts a container$/m);
  });

  test("install follows the task", async () => {
    await using ctl = await withComponents();
    const { code, out, err } = await ctl.run([
      "component",
      "install",
      "kubernetes",
      "1.36.4",
      "--from",
      "go",
    ]);
    expect([code, out]).toEqual([0, expect.stringContaining("Component kubernetes 1.36.4 is on n1")]);
    expect(err).toContain("building kubelet");
  });

  test("verify takes the newest that is there", async () => {
    await using ctl = await withComponents();
    const { code, out } = await ctl.run(["component", "verify", "kubernetes"]);
    expect([code, out]).toEqual([0, expect.stringContaining("kubernetes is as it was installed on n1")]);
  });

  test("import wants to know from where", async () => {
    await using ctl = await withComponents();
    const refused = await ctl.run(["component", "import", "kubernetes", "1.37.0"]);
    expect([refused.code === 0, refused.err]).toEqual([false, expect.stringContaining("--from")]);
    const { code, out } = await ctl.run([
      "component",
      "import",
      "kubernetes",
      "1.37.0",
      "--from",
      "/opt/k8s",
    ]);
    expect([code, out]).toEqual([0, expect.stringContaining("Component kubernetes 1.37.0 is on n1")]);
  });
});
