import { describe, expect, it } from "vitest";
import { allOf, anonymous, anyOf, authenticated, owner, privilege } from "@gpve/contracts/v1/permission.ts";
import type { V1Permission } from "@gpve/contracts/v1/permission.ts";
import type { AccessView, Actor } from "@gpve/domain/request/context.ts";
import { mayDo, requireMay } from "./authorisation.ts";

function holding(held: Readonly<Record<string, readonly string[]>>): AccessView {
  const has: AccessView["has"] = (path, wanted, mode = "all") => {
    const own = held[path] ?? [];
    return mode === "any"
      ? wanted.some((name) => own.includes(name))
      : wanted.every((name) => own.includes(name));
  };
  return {
    has,
    privileges: (path) => new Map((held[path] ?? []).map((name) => [name, true])),
    require: () => undefined,
  };
}

const joe: Actor = { userid: "joe@pve", authid: "joe@pve" };
const token: Actor = { userid: "joe@pve", tokenid: "ci", authid: "joe@pve!ci" };
const may = (rule: V1Permission, target: object = {}, held = {}, actor: Actor | undefined = joe) =>
  mayDo(rule, { actor, access: holding(held) }, target);

describe("permissions of /api/v1", () => {
  it("let nobody in without credentials but where anyone may", () => {
    const nobody = { actor: undefined, access: holding({ "/": ["Sys.Audit"] }) };
    expect(mayDo(anonymous, nobody, {})).toBe(true);
    for (const rule of [authenticated, owner("metadata.name"), privilege("/", "Sys.Audit")]) {
      expect(mayDo(rule, nobody, {})).toBe(false);
    }
    expect(() => requireMay(authenticated, nobody, {})).toThrow(/needs credentials/);
  });

  it("know owners: a user owns what the user's tokens made, a token only its own", () => {
    const task = (user: string) => ({ current: { spec: { user } } });
    const rule = owner("spec.user");
    expect(may(rule, task("joe@pve"))).toBe(true);
    expect(may(rule, task("joe@pve!ci"))).toBe(true);
    expect(may(rule, task("joe@pve"), {}, token)).toBe(false);
    expect(may(rule, task("joe@pve!ci"), {}, token)).toBe(true);
    expect(may(rule, task("joe@pvex"))).toBe(false);
    expect(may(rule, {})).toBe(false);
  });

  it("want the privilege both where an object is and where it would go", () => {
    const rule = privilege("/pool/{name}", "Pool.Allocate");
    const at = (name: string) => ({ metadata: { name } });
    const held = { "/pool/a": ["Pool.Allocate"] };
    expect(may(rule, { current: at("a") }, held)).toBe(true);
    expect(may(rule, { current: at("a"), desired: at("b") }, held)).toBe(false);
    expect(may(rule, {}, { "/pool/-": [] })).toBe(false);
  });

  it("name what is missing as PVE does", () => {
    const access = holding({ "/nodes/n1": ["Sys.Audit"] });
    const subject = { actor: joe, access };
    const target = { current: { metadata: { name: "n1" }, spec: { path: "/vms/100" } } };
    const text = (rule: V1Permission): string => {
      try {
        requireMay(rule, subject, target);
        return "";
      } catch (err) {
        return (err as Error).message;
      }
    };
    expect(text(privilege("/nodes/{name}", "Sys.Audit", "Sys.Modify"))).toBe(
      "Permission check failed (/nodes/n1, Sys.Modify)",
    );
    expect(text({ allow: "privilege", path: "/", privileges: ["A", "B"], mode: "any" })).toBe(
      "Permission check failed (/, A|B)",
    );
    expect(text(anyOf(owner("spec.user"), privilege("/", "Sys.Audit")))).toBe(
      "Permission check failed (/, Sys.Audit)",
    );
    expect(text(allOf(authenticated, privilege("/", "Sys.Audit")))).toBe(
      "Permission check failed (/, Sys.Audit)",
    );
    expect(text({ allow: "acl-modify", path: "{spec.path}" })).toBe(
      "Permission check failed (/vms/100, Permissions.Modify)",
    );
    expect(text({ allow: "user-group", privileges: ["User.Modify"] })).toBe(
      "Permission check failed (/access/groups, User.Modify)",
    );
    expect(text(owner("spec.user"))).toBe("Permission check failed");
    expect(text(privilege("/nodes/{name}", "Sys.Audit"))).toBe("");
  });

  it("let group administrators touch only what their groups hold", () => {
    const rule: V1Permission = { allow: "user-group", privileges: ["User.Modify"] };
    const user = (...groups: string[]) => ({ spec: { groups } });
    const held = { "/access/groups/dev": ["User.Modify"] };
    expect(may(rule, { current: user("dev") }, held)).toBe(true);
    expect(may(rule, { current: user() }, held)).toBe(false);
    expect(may(rule, { desired: user("dev") }, held)).toBe(true);
    expect(may(rule, { desired: user() }, held)).toBe(false);
    expect(may(rule, { desired: user("dev", "ops") }, held)).toBe(false);
    expect(may(rule, { current: user("dev", "ops"), desired: user("dev", "ops") }, held)).toBe(true);
    expect(may(rule, { current: user("dev", "ops"), desired: user("dev") }, held)).toBe(false);
    expect(may(rule, { desired: user() }, { "/access/groups": ["User.Modify"] })).toBe(true);
  });
});
