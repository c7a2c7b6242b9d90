import { describe, expect, it } from "vitest";
import { AppError } from "../errors.ts";
import {
  allOf,
  anonymous,
  anyOf,
  authenticated,
  describePermission,
  owner,
  privilege,
} from "./permission.ts";
import { problemOf } from "./problem.ts";

describe("problem bodies", () => {
  it("carry code, texts per field and data of a known error", () => {
    const err = new AppError("request.invalid", "bad\n", { errors: { "spec.x": "no" }, data: { a: 1 } });
    expect(problemOf(err, "req-1")).toEqual({
      type: "urn:gpve:error:request.invalid",
      title: "Invalid request",
      status: 400,
      detail: "bad",
      code: "request.invalid",
      instance: "req-1",
      errors: { "spec.x": "no" },
      data: { a: 1 },
    });
  });

  it("say nothing about an unknown error", () => {
    expect(problemOf(new Error("password=x"))).toMatchObject({ status: 500, code: "internal.error" });
    expect(JSON.stringify(problemOf(new Error("password=x")))).not.toContain("password");
  });

  it("answer 413 and 410 where HTTP has a better status than the kind", () => {
    expect(problemOf(new AppError("request.too_large", "x")).status).toBe(413);
    expect(problemOf(new AppError("store.compacted", "x")).status).toBe(410);
  });
});

describe("permissions in words", () => {
  it("name privileges, paths and alternatives", () => {
    expect(describePermission(anyOf(owner("spec.user"), privilege("/nodes/{name}", "Sys.Audit")))).toBe(
      "the user named by spec.user, or Sys.Audit on /nodes/{name}",
    );
    expect(describePermission(allOf(authenticated, anonymous))).toBe("any authenticated user, and anyone");
    expect(describePermission({ allow: "acl-modify", path: "{spec.path}" })).toContain("ACL");
    expect(describePermission({ allow: "user-group", privileges: ["User.Modify"] })).toContain("groups");
    expect(describePermission({ allow: "privilege", path: "/", privileges: ["A", "B"], mode: "any" })).toBe(
      "A or B on /",
    );
  });
});
