import { describe, expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

const upid = "UPID:n1:1:";

async function withImages(): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  ctl.api
    .pve("GET /nodes", [
      { node: "n0", status: "offline" },
      { node: "n1", status: "online" },
    ])
    .pve(`GET /nodes/n1/tasks/${upid}/status`, { status: "stopped", exitstatus: "OK" })
    .pve(`GET /nodes/n1/tasks/${upid}/log`, [{ n: 1, t: "checksum verified" }], 1)
    .on("GET /api/v1/nodes/n1/images", {
      body: {
        images: [
          { name: "alpine", about: "Alpine", pull: true, build: false },
          {
            name: "tiny",
            about: "Tiny",
            pull: false,
            build: true,
            volume: "local:import/tiny.qcow2",
            sizeBytes: 1024,
          },
        ],
      },
    })
    .on("POST /api/v1/nodes/n1/images/alpine/pull", { body: { task: upid } })
    .on("POST /api/v1/nodes/n1/images/tiny/build", { body: { task: upid } });
  return ctl;
}

describe("gpvectl image", () => {
  test("list shows what there is and what is here", async () => {
    await using ctl = await withImages();
    const { out } = await ctl.run(["image", "list"]);
    expect(out).toMatch(/^alpine +yes +no +- +- +Alpine$/m);
    expect(out).toMatch(/^tiny +no +yes +local:import\/tiny.qcow2 +1.0 KiB +Tiny$/m);
  });

  test("pull follows the task and says where the image is", async () => {
    await using ctl = await withImages();
    const { code, out, err } = await ctl.run(["image", "pull", "alpine"]);
    expect([code, out + err]).toEqual([
      0,
      expect.stringContaining("Image alpine is on n1: local:import/alpine.qcow2"),
    ]);
    expect(err).toContain("checksum verified");
  });

  test("build takes node and storage", async () => {
    await using ctl = await withImages();
    const { code, out } = await ctl.run(["image", "build", "tiny", "--node", "n1", "--no-wait"]);
    expect([code, out]).toEqual([0, `${upid}\n`]);
  });

  test("says when no node is online", async () => {
    await using ctl = await withImages();
    ctl.api.pve("GET /nodes", []);
    const { code, err } = await ctl.run(["image", "list"]);
    expect(code).not.toBe(0);
    expect(err).toContain("no node is online");
  });
});
