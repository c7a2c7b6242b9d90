import { expect, test } from "vitest";
import { OWN_PROGRAM_ENV } from "@gpve/kit/own-program-env.ts";
import { MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { partEnv } from "./node-parts.ts";

test("parts of a lab node get little of the caller's environment, and give back what they freed", () => {
  const { MALLOC_TRIM_THRESHOLD_: bound } = OWN_PROGRAM_ENV;
  expect(partEnv({ HOME: "/root", PATH: "/mine", SECRET: "x" })).toEqual({
    ...MINIMAL_ENV,
    HOME: "/root",
    MALLOC_TRIM_THRESHOLD_: bound,
  });
});
