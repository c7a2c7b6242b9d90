import { expect, test } from "vitest";
import { inheritedEnv, OWN_PROGRAM_ENV } from "./own-program-env.ts";

const bound = OWN_PROGRAM_ENV["MALLOC_TRIM_THRESHOLD_"];

test("who goes on where we are gives back what was freed, also where nobody told us to", () => {
  expect(inheritedEnv({ PATH: "/bin", HOME: undefined })).toEqual({
    PATH: "/bin",
    MALLOC_TRIM_THRESHOLD_: bound,
  });
});

test("only what is passed is passed, and a bound that we were given", () => {
  const own = { HOME: "/root", SECRET: "x", MALLOC_TRIM_THRESHOLD_: "4096" };
  expect(inheritedEnv(own, (name) => name === "HOME")).toEqual({
    HOME: "/root",
    MALLOC_TRIM_THRESHOLD_: "4096",
  });
});
