import { afterEach, beforeEach, expect, test } from "vitest";
import { startV1 } from "../../../presentation/v1/testing/v1-server.ts";
import type { V1TestServer } from "../../../presentation/v1/testing/v1-server.ts";

let v1: V1TestServer;
beforeEach(async () => {
  v1 = await startV1();
});
afterEach(() => v1.close());

const READ = { apiGroups: ["gpve.io"], resources: ["virtualmachines"], verbs: ["get", "list", "watch"] };
const CONSOLE = { apiGroups: ["gpve.io"], resources: ["virtualmachines/console"], verbs: ["create"] };
const role = (name: string, spec: object) => ({
  apiVersion: "gpve.io/v1",
  kind: "Role",
  metadata: { name },
  spec,
});

test("a role written as rules is one of privileges, and is read both ways", async () => {
  const made = await v1.ask("POST", "/roles", { body: role("look", { rules: [READ] }) });
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({
    spec: { privileges: ["VM.Audit"] },
    status: { builtin: false, rules: [READ] },
  });
  expect(made.body["spec"]).not.toHaveProperty("rules");
  const again = await v1.ask("POST", "/plan", { body: { objects: [role("look", { rules: [READ] })] } });
  expect(again.body).toMatchObject({ items: [{ action: "unchanged" }] });
  const more = await v1.ask("PATCH", "/roles/look", { body: { spec: { rules: [READ, CONSOLE] } } });
  expect(more.body).toMatchObject({ spec: { privileges: ["VM.Audit", "VM.Console"] } });
  const less = await v1.ask("PATCH", "/roles/look", { body: { spec: { privileges: ["VM.Console"] } } });
  expect(less.body).toMatchObject({ status: { rules: [CONSOLE] } });
});

test("rules that are equal change no version", async () => {
  const made = await v1.ask("POST", "/roles", { body: role("look", { rules: [READ] }) });
  const same = await v1.ask("PUT", "/roles/look", { body: role("look", { rules: [READ] }) });
  expect(same.body.metadata).toEqual(made.body.metadata);
});

test("both notations must agree, and one must be there", async () => {
  const both = await v1.ask("POST", "/roles", {
    body: role("look", { rules: [READ], privileges: ["VM.Audit"] }),
  });
  expect(both.status).toBe(201);
  const apart = await v1.ask("POST", "/roles", {
    body: role("other", { rules: [READ], privileges: ["VM.Console"] }),
  });
  expect(apart.status).toBe(400);
  expect(apart.body).toMatchObject({
    errors: { "spec.rules": expect.stringMatching(/says VM\.Audit, and spec\.privileges says VM\.Console/) },
  });
  const neither = await v1.ask("POST", "/roles", { body: role("none", {}) });
  expect(neither.body).toMatchObject({ status: 400, errors: { "spec.privileges": expect.any(String) } });
});

test("a rule that maps to nothing is refused by its place", async () => {
  const answer = await v1.ask("POST", "/roles", {
    body: role("pods", { rules: [READ, { resources: ["pods"], verbs: ["get"] }] }),
  });
  expect(answer.status).toBe(400);
  expect(answer.body).toMatchObject({
    errors: { "spec.rules[1].resources": expect.stringMatching(/'pods' maps to nothing/) },
  });
  const unknown = await v1.ask("POST", "/roles", {
    body: role("x", { rules: [{ ...READ, nonResourceURLs: ["/"] }] }),
  });
  expect(unknown.status).toBe(400);
});

test("our five roles are there, shipped, and stay as they are", async () => {
  for (const name of ["cluster-admin", "tenant-admin", "vm-operator", "vc-operator", "viewer"]) {
    const { body } = await v1.ask("GET", `/roles/${name}`);
    expect(body).toMatchObject({ status: { builtin: true } });
    const changed = await v1.ask("PUT", `/roles/${name}`, { body: role(name, { privileges: ["VM.Audit"] }) });
    expect(changed.status).toBe(400);
  }
});
