import type { NodeFacts } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { expect, test } from "vitest";
import { probeNodeOperation, probeRoutes } from "./probe-node.ts";

const facts = {
  accelerator: "tcg",
  capabilities: [
    { name: "qemu", available: true, detail: "QEMU 7.2" },
    { name: "kvm", available: false, detail: "/dev/kvm is not there", fix: "turn it on" },
  ],
} as unknown as NodeFacts;

test("whoever may change the node has it looked at again, and the task tells what it can do", async () => {
  const asked: unknown[] = [];
  let looks = 0;
  const { engine, logs } = testEngine();
  engine.register(probeNodeOperation({ refresh: () => Promise.resolve(void looks++), facts: () => facts }));
  await engine.start();
  const ctx = {
    actor: { authid: "joe@pve", userid: "joe@pve" },
    access: { require: (...question: unknown[]) => void asked.push(question) },
  } as unknown as RequestContext;
  const probe = probeRoutes("n1", engine)["POST /gpve/nodes/{node}/probe"];
  const upid = await probe({ node: "n1", requestId: "r1" }, ctx);
  expect(await engine.wait(upid)).toMatchObject({ state: "done", actor: "joe@pve" });
  expect(looks).toBe(1);
  expect(asked).toEqual([["/nodes/n1", ["Sys.Modify"]]]);
  expect(logs.lines.get(upid)).toEqual(
    expect.arrayContaining([
      "accelerator: tcg",
      "qemu: yes, QEMU 7.2",
      "kvm: no, /dev/kvm is not there; turn it on",
    ]),
  );
  await engine.stop();
});
