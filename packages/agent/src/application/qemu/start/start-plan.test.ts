import { expect, it } from "vitest";
import { resolveVolumes, type StartPlanPorts } from "./start-plan.ts";

it("looks at all volumes of a guest at the same time, each once, and keeps their order", async () => {
  const asked: string[] = [];
  const all = Promise.withResolvers<void>();
  const plugin = {
    activate: async () => undefined,
    parse: () => ({ type: "images" }),
    block: (volname: string) => ({ node: { driver: "file", filename: `/d/${volname}` }, format: "raw" }),
    attach: async (volname: string) => {
      asked.push(volname);
      if (asked.length === 2) all.resolve();
      await all.promise;
      return { node: { driver: "file", filename: `/d/${volname}` }, format: "raw" };
    },
  };
  const host = {
    storages: { plugin: () => plugin, definition: () => ({ type: "dir", options: {} }) },
    files: { bytes: () => 512 },
  } as unknown as StartPlanPorts;
  const values = { scsi0: "local:1/a.raw", scsi1: "none,media=cdrom", ide0: "local:1/b.raw" };
  const { resolved, files } = await resolveVolumes(host, values);
  expect(asked.toSorted()).toEqual(["1/a.raw", "1/b.raw"]);
  expect([...resolved.keys()].toSorted()).toEqual(["local:1/a.raw", "local:1/b.raw"]);
  expect(files.map(({ path }) => path)).toEqual([...resolved.values()].map(({ node }) => node.filename));
});
