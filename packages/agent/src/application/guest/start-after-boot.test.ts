import { silentLogger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { expect, test } from "vitest";
import { startAfterBoot } from "./start-after-boot.ts";

test("guests that start with the machine are started after a boot, and only then", async () => {
  const submitted: unknown[] = [];
  const submit = async (request: unknown): Promise<never> => void submitted.push(request) as never;
  const engine = { submit } as unknown as Pick<OperationEngine, "submit">;
  await startAfterBoot({ node: "n1", wasBooted: () => false, engine, log: silentLogger });
  expect(submitted).toEqual([]);
  await startAfterBoot({ node: "n1", wasBooted: () => true, engine, log: silentLogger });
  expect(submitted).toMatchObject([{ type: "startall", resources: ["node/n1/all"], actor: "root@pam" }]);
});
