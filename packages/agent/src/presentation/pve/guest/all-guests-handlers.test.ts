import { expect, test } from "vitest";
import type { SubmitRequest } from "@gpve/kit/operation/engine.ts";
import { contextOf } from "../../../testing/storage-world.ts";
import { createAllGuestsHandlers } from "./all-guests-handlers.ts";

const submitted: SubmitRequest[] = [];
const handlers = createAllGuestsHandlers({
  engine: {
    submit: async (request) => {
      submitted.push(request);
      return { upid: `UPID:${request.type}` } as never;
    },
  },
});
const ctx = contextOf(undefined);

test("starts, stops and suspends all guests of a node, or those that are named", async () => {
  expect(await handlers["POST /nodes/{node}/startall"]?.({ node: "n1" }, ctx)).toBe("UPID:startall");
  expect(submitted.at(-1)).toMatchObject({ resources: ["node/n1/all"], args: { force: false } });
  await handlers["POST /nodes/{node}/startall"]?.(
    { node: "n1", vms: "100,101", force: true },
    { ...ctx, traceparent: "00-1" },
  );
  expect(submitted.at(-1)).toMatchObject({ args: { force: true, vmids: [100, 101] }, traceparent: "00-1" });
  const few = { node: "n1", timeout: 7, "force-stop": false, "max-workers": 2 };
  await handlers["POST /nodes/{node}/stopall"]?.(few, ctx);
  expect(submitted.at(-1)?.args).toEqual({ forceStop: false, timeoutSeconds: 7, workers: 2 });
  await handlers["POST /nodes/{node}/stopall"]?.({ node: "n1" }, ctx);
  expect(submitted.at(-1)?.args).toEqual({ forceStop: true });
  const { actor: _actor, ...anonymous } = ctx;
  await handlers["POST /nodes/{node}/suspendall"]?.({ node: "n1" }, { ...anonymous, actor: undefined });
  expect(submitted.at(-1)).toMatchObject({ type: "suspendall", actor: "" });
});

test("needs the right to power each of them", async () => {
  const denied = contextOf({ "/": [], "/vms/100": ["VM.PowerMgmt"] });
  for (const none of [{}, { vms: "" }])
    await expect(handlers["POST /nodes/{node}/startall"]?.({ node: "n1", ...none }, denied)).rejects.toThrow(
      "Permission check failed",
    );
  expect(await handlers["POST /nodes/{node}/startall"]?.({ node: "n1", vms: "100" }, denied)).toBe(
    "UPID:startall",
  );
});
