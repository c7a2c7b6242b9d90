import { expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

test("members are listed with their health, and a lost one is taken out", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api
    .on("GET /api/v1/store-members", {
      status: 200,
      body: {
        members: [
          {
            id: "a1",
            name: "n1",
            role: "voter",
            leader: true,
            healthy: true,
            clientUrls: ["https://n1:2379"],
          },
          { id: "b2", name: "n2", role: "voter", leader: false, healthy: false, problem: "no answer" },
        ],
      },
    })
    .on("DELETE /api/v1/store-members/n2", { status: 200, body: {} });
  const { out } = await ctl.run(["store", "members"]);
  expect(out).toMatch(/n1\s+voter\s+yes\s+yes/);
  expect(out).toMatch(/n2\s+voter\s+no\s+no.*no answer/);
  const removed = await ctl.run(["store", "remove-member", "n2"]);
  expect([removed.code, removed.out + removed.err]).toEqual([0, expect.stringContaining("Took n2 out")]);
  ctl.api.on("GET /api/v1/store-members", { status: 200, body: {} });
  const none = await ctl.run(["store", "members"]);
  expect(none.out + none.err).toContain("No members");
});
