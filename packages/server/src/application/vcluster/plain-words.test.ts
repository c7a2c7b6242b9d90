import { expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { plainlyRefused, plainWords } from "./plain-words.ts";

const KEY = "0-demo-au2lyy3xanxc";
const ctx = {} as RequestContext;

test("a key in what a node says becomes the name that its tenant knows", async () => {
  const records = new MemoryRecords();
  const spec = readVirtualClusterSpec({});
  await records.transact((tx) =>
    tx.put(vclusterCollection, KEY, { key: KEY, name: "demo", tenant: "a", node: "n1", spec, madeBy: "" }),
  );
  const refusing = plainlyRefused(
    {
      call: async (_node, _route, params) => {
        const { vcluster } = params as { readonly vcluster: string };
        const errors = { version: `gpvectl vc upgrade ${vcluster}` };
        throw new AppError("object.conflict", `virtual cluster '${vcluster}' is Stopped`, { errors });
      },
    },
    records,
  );
  const stop = (vcluster: string) => {
    const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/stop" as const;
    return refusing.call("n1", route, { vcluster, tenant: "a", requestId: "r" }, ctx);
  };
  await expect(stop(KEY)).rejects.toMatchObject({
    code: "object.conflict",
    message: "virtual cluster 'demo' is Stopped",
    errors: { version: "gpvectl vc upgrade demo" },
  });
  await expect(stop("plain")).rejects.toThrow("virtual cluster 'plain' is Stopped");
  expect(plainWords({ key: KEY, name: "demo" }, `${KEY} is kept in clusters/${KEY}/saves`)).toBe(
    `demo is kept in clusters/${KEY}/saves`,
  );
  expect(plainWords({ name: "demo" }, "demo fails")).toBe("demo fails");
});
