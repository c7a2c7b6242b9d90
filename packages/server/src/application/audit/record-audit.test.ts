import type { AuditEntry, AuditLog } from "@gpve/domain/audit/audit-log.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, test } from "vitest";
import { type AuditedCall, recordAudit } from "./record-audit.ts";

const call: AuditedCall = {
  requestId: "r1",
  user: "joe@pve",
  verb: "PUT",
  resource: "/access/users/{userid}",
  name: "/access/users/ann@pve",
  sourceIP: "192.0.2.1",
  userAgent: "curl",
  statusCode: 200,
  message: "",
  params: { comment: "hi" },
};

async function recorded(given: Partial<AuditedCall> | undefined): Promise<AuditEntry | undefined> {
  const entries: AuditEntry[] = [];
  const log = { append: async (entry: AuditEntry) => void entries.push(entry) } as unknown as AuditLog;
  const groupsOf = (user: string): string[] => (user === "joe@pve" ? ["ops"] : []);
  await recordAudit({ log, clock: new FakeClock(0), groupsOf })(
    given === undefined ? undefined : { ...call, ...given },
  );
  return entries[0];
}

test("a call becomes an entry with its object's name, the user's groups and the parameters", async () => {
  expect(await recorded({})).toMatchObject({
    timestamp: "1970-01-01T00:00:00.000Z",
    user: "joe@pve",
    userGroups: ["ops"],
    verb: "update",
    name: "ann@pve",
    extra: { params: { userid: "ann@pve", comment: "hi" } },
  });
});

test("parameters that may not be kept are not, the object is still named", async () => {
  expect((await recorded({ params: undefined }))?.extra).toEqual({ params: { userid: "ann@pve" } });
});

test("a failed login names who was tried", async () => {
  const login = { verb: "POST", resource: "/access/ticket", name: "/access/ticket", params: undefined };
  expect(await recorded({ ...login, user: "eve@pam", statusCode: 401 })).toMatchObject({
    user: "eve@pam",
    verb: "login",
    userGroups: [],
    statusCode: 401,
  });
});

test("what is not audited leaves no entry, and a log that cannot be written is told to the caller", async () => {
  expect(await recorded(undefined)).toBeUndefined();
  const full = { append: () => Promise.reject(new Error("full")) } as unknown as AuditLog;
  const record = recordAudit({ log: full, clock: new FakeClock(0), groupsOf: () => [] });
  await expect(record(call)).rejects.toThrow("full");
});
