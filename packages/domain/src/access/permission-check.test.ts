import { describe, expect, test } from "vitest";
import type { PvePermission } from "@gpve/contracts/pve/schema.ts";
import { isAppError } from "@gpve/contracts/errors.ts";
import { actorOf } from "../request/context.ts";
import { createAccessView } from "./access-view.ts";
import { buildAccessModel } from "./model.ts";
import { checkPermission } from "./permission-check.ts";
import { parseUserCfg } from "./testing/user-cfg.ts";

const cfg = parseUserCfg(`user:root@pam:1:
user:joe@pve:1:
user:ann@pve:1:
user:bob@pve:1:
token:root@pam!up::0:
group:g1:ann@pve:
group:g2:bob@pve:
role:vm:VM.Audit,VM.Clone:
role:alloc:VM.Allocate:
role:umod:User.Modify:
role:ralloc:Realm.AllocateUser:
role:perm:Permissions.Modify:
acl:1:/vms/100:joe@pve:vm:
acl:1:/pool/p1:joe@pve:alloc:
acl:1:/vms/300:joe@pve:alloc:
acl:1:/access/groups/g1:joe@pve:umod:
acl:1:/access/realm/pve:joe@pve:ralloc:
pool:p1::::
`);
const model = buildAccessModel({ ...cfg, realms: [] });

/** "allowed", or the text of the refusal. */
function ask(permission: PvePermission, params: Record<string, unknown>, authid: string | undefined): string {
  const actor = authid === undefined ? undefined : actorOf(authid);
  try {
    checkPermission(permission, params, { actor, access: createAccessView(model, actor, 0), model });
    return "allowed";
  } catch (err) {
    if (!isAppError(err)) throw err;
    return `${err.pveStatus ?? 403} ${err.message}`;
  }
}

describe("who may call a method", () => {
  test("world is for everyone, all for everyone known", () => {
    expect(ask({ user: "world" }, {}, undefined)).toBe("allowed");
    expect(ask({ user: "world" }, {}, "joe@pve")).toBe("allowed");
    expect(ask({ user: "all" }, {}, "joe@pve")).toBe("allowed");
    expect(ask({ user: "all" }, {}, undefined)).toBe("403 Permission check failed (user != null)");
  });

  test("no permission declared means the literal root@pam, not its tokens", () => {
    expect(ask(null, {}, "root@pam")).toBe("allowed");
    expect(ask(null, {}, "root@pam!up")).toBe("403 Permission check failed (user != root@pam)");
  });

  test("a privilege on a path with parameters, '-' for a missing one", () => {
    const check = { check: ["perm", "/vms/{vmid}", ["VM.Audit", "VM.Allocate"]] };
    expect(ask(check, { vmid: 100 }, "joe@pve")).toBe("403 Permission check failed (/vms/100, VM.Allocate)");
    expect(ask(check, {}, "joe@pve")).toBe("403 Permission check failed (/vms/-, VM.Audit)");
    expect(ask(check, { vmid: "1 2" }, "joe@pve")).toBe("403 Permission check failed (, VM.Audit)");
    expect(ask(check, { vmid: 100 }, "root@pam!up")).toBe("allowed");
  });

  test("any of several privileges, joined with a bar in the refusal", () => {
    const check = { check: ["perm", "/vms/{vmid}", ["VM.Audit", "VM.Console"], "any", 1] };
    expect(ask(check, { vmid: 100 }, "joe@pve")).toBe("allowed");
    expect(ask(check, { vmid: 101 }, "joe@pve")).toBe(
      "403 Permission check failed (/vms/101, VM.Audit|VM.Console)",
    );
  });

  test("and names what failed, or does not", () => {
    const clone = {
      check: [
        "and",
        ["perm", "/vms/{vmid}", ["VM.Clone"]],
        [
          "or",
          ["perm", "/vms/{newid}", ["VM.Allocate"]],
          ["perm", "/pool/{pool}", ["VM.Allocate"], "require_param", "pool"],
        ],
      ],
    };
    expect(ask(clone, { vmid: 100, newid: 200, pool: "p1" }, "joe@pve")).toBe("allowed");
    expect(ask(clone, { vmid: 100, newid: 300 }, "joe@pve")).toBe("allowed");
    expect(ask(clone, { vmid: 100, newid: 200 }, "joe@pve")).toBe("403 Permission check failed");
    expect(ask(clone, { vmid: 101, newid: 300 }, "joe@pve")).toBe(
      "403 Permission check failed (/vms/101, VM.Clone)",
    );
  });

  test("require_param alone refuses plainly", () => {
    const check = { check: ["perm", "/pool/{pool}", ["VM.Allocate"], "require_param", "pool"] };
    expect(ask(check, {}, "joe@pve")).toBe("403 Permission check failed");
  });

  test("oneself, or someone whose group one may modify", () => {
    const check = { check: ["or", ["userid-param", "self"], ["userid-group", ["User.Modify"]]] };
    expect(ask(check, { userid: "joe@pve" }, "joe@pve")).toBe("allowed");
    expect(ask(check, { userid: "ann@pve" }, "joe@pve")).toBe("allowed");
    expect(ask(check, { userid: "bob@pve" }, "joe@pve")).toBe("403 Permission check failed");
    expect(ask(check, { userid: "nobody@pve" }, "joe@pve")).toBe("403 Permission check failed");
    expect(ask({ check: ["userid-param", "self"] }, { userid: "nobody@pve" }, "joe@pve")).toBe(
      "500 no such user ('nobody@pve')",
    );
  });

  test("below an or, an and still says what is missing", () => {
    const password = {
      check: [
        "or",
        ["userid-param", "self"],
        ["and", ["userid-param", "Realm.AllocateUser"], ["userid-group", ["User.Modify"]]],
      ],
    };
    expect(ask(password, { userid: "ann@pve" }, "joe@pve")).toBe("allowed");
    expect(ask(password, { userid: "root@pam" }, "joe@pve")).toBe(
      "403 Permission check failed (/access/realm/pam, Realm.AllocateUser)",
    );
    expect(ask(password, { userid: "no@pve" }, "joe@pve")).toBe("500 no such user ('no@pve')");
    expect(ask(password, { userid: "bad" }, "joe@pve")).toBe(
      "500 value 'bad' does not look like a valid user name",
    );
  });

  test("creating a user needs User.Modify on every group given", () => {
    const create = {
      check: [
        "and",
        ["userid-param", "Realm.AllocateUser"],
        ["userid-group", ["User.Modify"], "groups_param", "create"],
      ],
    };
    expect(ask(create, { userid: "new@pve", groups: "g1" }, "joe@pve")).toBe("allowed");
    expect(ask(create, { userid: "new@pve" }, "joe@pve")).toBe(
      "403 Permission check failed (/access/groups, User.Modify)",
    );
    expect(ask(create, { userid: "new@pve", groups: "g1,g2" }, "joe@pve")).toBe(
      "403 Permission check failed (/access/groups/g2, User.Modify)",
    );
    expect(ask(create, { userid: "new@pve", groups: ["g1"] }, "ann@pve")).toBe(
      "403 Permission check failed (/access/realm/pve, Realm.AllocateUser)",
    );
  });

  test("updating a user needs both the new groups and one of the present ones", () => {
    const update = { check: ["userid-group", ["User.Modify"], "groups_param", "update"] };
    expect(ask(update, { userid: "ann@pve", groups: "g1" }, "joe@pve")).toBe("allowed");
    expect(ask(update, { userid: "bob@pve", groups: "g1" }, "joe@pve")).toBe("403 Permission check failed");
    expect(ask(update, { userid: "none@pve", groups: "g1" }, "joe@pve")).toBe(
      "500 no such user ('none@pve')",
    );
  });

  test("changing permissions is also for who may allocate the object", () => {
    const check = { check: ["perm-modify", "{path}"] };
    expect(ask(check, { path: "/vms/300" }, "joe@pve")).toBe("allowed");
    expect(ask(check, { path: "/vms/100" }, "joe@pve")).toBe(
      "403 Permission check failed (/vms/100, Permissions.Modify|VM.Allocate)",
    );
    expect(ask(check, { path: "/storage/x" }, "joe@pve")).toBe(
      "403 Permission check failed (/storage/x, Permissions.Modify|Datastore.Allocate)",
    );
    expect(ask(check, { path: "/pool/p9" }, "joe@pve")).toBe(
      "403 Permission check failed (/pool/p9, Permissions.Modify|Pool.Allocate)",
    );
    expect(ask(check, { path: "/" }, "joe@pve")).toBe("403 Permission check failed (/, Permissions.Modify)");
    expect(ask({ check: ["or", ["perm-modify", "/"]] }, {}, "joe@pve")).toBe("403 Permission check failed");
    expect(ask(check, { path: "a b" }, "joe@pve")).toBe("allowed");
  });

  test("a declaration nobody understands is an error, not a permission", () => {
    for (const check of [["maybe"], ["and", "x"], ["userid-param", "other"]]) {
      expect(ask({ check }, { userid: "joe@pve" }, "joe@pve")).not.toBe("allowed");
    }
    expect(ask({ user: "some" } as unknown as PvePermission, {}, "joe@pve")).toBe(
      "403 Permission check failed",
    );
  });
});

test("anonymous has no privileges", () => {
  const view = createAccessView(model, undefined, 0);
  expect(view.has("/", ["Sys.Audit"])).toBe(false);
  expect(() => view.require("/", ["Sys.Audit"], "any")).toThrow("Permission check failed (/, Sys.Audit)");
});
