import { expect, test } from "vitest";
import { madeUpRequest } from "../../../testing/made-up-vm.ts";
import { replicaRoutes } from "./replica-routes.ts";

test("a copy is sent as a task of the VM, with what was asked for; kept ones are recovered and dropped", async () => {
  const submitted: unknown[] = [];
  const dropped: unknown[] = [];
  const engine = {
    submit: async (request: { readonly type: string; readonly resources: readonly string[] }) => {
      submitted.push(request);
      return { upid: "UPID:x" };
    },
  };
  const routes = replicaRoutes(engine as never, {
    recover: async () => ({ job: "100-0", volumes: ["local:100/vm-100-disk-0.raw"] }) as never,
    drop: async (...asked) => void dropped.push(asked),
  });
  const ctx = madeUpRequest();
  const send = { node: "n1", vmid: 100, job: "100-0", target: "n2", moveId: "m", rate: 5 };
  expect(await routes["POST /gpve/nodes/{node}/vms/{vmid}/replicate"](send, ctx)).toBe("UPID:x");
  expect(submitted).toMatchObject([
    {
      resources: ["vm/100"],
      args: { vmid: 100, job: "100-0", target: "n2", moveId: "m", rate: 5 },
      subject: "100",
    },
  ]);
  const one = { node: "n1", vmid: 100 };
  const recovered = await routes["POST /gpve/nodes/{node}/vms/{vmid}/replica/recover"](one, ctx);
  expect(recovered).toEqual({ job: "100-0", volumes: ["local:100/vm-100-disk-0.raw"] });
  await routes["DELETE /gpve/nodes/{node}/vms/{vmid}/replica"]({ ...one, keep: ["a"] } as never, ctx);
  expect(dropped).toEqual([[100, ["a"]]]);
});
