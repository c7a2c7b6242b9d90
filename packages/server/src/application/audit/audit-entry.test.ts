import { REDACTED } from "@gpve/kit/redact.ts";
import { describe, expect, test } from "vitest";
import { type AnsweredRequest, auditEntry } from "./audit-entry.ts";

const request = (given: Partial<AnsweredRequest> = {}): AnsweredRequest => ({
  at: 0,
  requestId: "r1",
  actor: { userid: "joe@pve", tokenid: "ci", authid: "joe@pve!ci" },
  userGroups: ["ops"],
  method: "PUT",
  path: "/access/users/{userid}",
  params: { userid: "ann@pve", comment: "hi" },
  clientAddress: "192.0.2.1",
  userAgent: "curl",
  status: 200,
  message: "OK",
  audit: "write",
  ...given,
});

describe("an audit entry", () => {
  test("says who did what to which object from where", () => {
    expect(auditEntry(request())).toEqual({
      timestamp: "1970-01-01T00:00:00.000Z",
      requestId: "r1",
      user: "joe@pve!ci",
      userGroups: ["ops"],
      verb: "update",
      resource: "/access/users/{userid}",
      name: "ann@pve",
      namespace: "",
      sourceIP: "192.0.2.1",
      userAgent: "curl",
      statusCode: 200,
      message: "OK",
      extra: { params: { userid: "ann@pve", comment: "hi" } },
    });
  });

  test.each([
    ["POST", "create"],
    ["DELETE", "delete"],
    ["PATCH", "update"],
    ["GET", "read"],
    ["OPTIONS", "options"],
  ])("%s is %s", (method, verb) => expect(auditEntry(request({ method })).verb).toBe(verb));

  test("names the guest rather than its node, the node when there is nothing else", () => {
    const params = { node: "n1", vmid: 100 };
    expect(auditEntry(request({ path: "/nodes/{node}/qemu/{vmid}/config", params })).name).toBe("100");
    expect(auditEntry(request({ path: "/nodes/{node}/dns", params })).name).toBe("n1");
  });

  test("names what a request to a collection makes, and its tenant", () => {
    const made = auditEntry(request({ method: "POST", path: "/pools", params: { poolid: "lab" } }));
    expect(made).toMatchObject({ name: "lab", namespace: "lab" });
    expect(auditEntry(request({ path: "/cluster/options", params: {} }))).toMatchObject({ name: "" });
    expect(auditEntry(request({ path: "/cluster/options", params: {} }))).not.toHaveProperty("extra");
  });

  test("hides secrets by name and all parameters of a secret route", () => {
    const params = { userid: "ann@pve", password: "hunter2" };
    expect(auditEntry(request({ params })).extra).toEqual({
      params: { userid: "ann@pve", password: REDACTED },
    });
    const entry = auditEntry(request({ params: { ...params, other: "hunter2" }, audit: "secret" }));
    expect(entry.extra).toEqual({ params: { userid: "ann@pve" } });
    expect(auditEntry(request({ path: "/access/password", params, audit: "secret" }))).not.toHaveProperty(
      "extra",
    );
  });

  test("a failed login names who was tried", () => {
    const entry = auditEntry(
      request({
        actor: undefined,
        method: "POST",
        path: "/access/ticket",
        params: { username: "root@pam", password: "x" },
        status: 401,
        message: "authentication failure",
        audit: "secret",
      }),
    );
    expect(entry).toMatchObject({ user: "root@pam", verb: "login", statusCode: 401 });
    expect(entry).not.toHaveProperty("extra");
  });

  test("stays small whatever was sent", () => {
    const big = "x".repeat(100_000);
    const entry = auditEntry(request({ params: { userid: big, y: big }, userAgent: big, message: big }));
    expect(JSON.stringify(entry).length).toBeLessThan(10_000);
  });
});
