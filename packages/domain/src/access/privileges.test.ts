import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createAccessView } from "./access-view.ts";
import { PRIVILEGES, isBuiltinRole } from "./builtin-roles.ts";
import type { AccessModel } from "./model.ts";
import { aclNodes, buildAccessModel } from "./model.ts";
import { isActive, privilegeSource } from "./privileges.ts";
import { privilegesAt, rolesAt } from "./testing/at-path.ts";
import { parseUserCfg } from "./testing/user-cfg.ts";

function modelOf(text: string): AccessModel {
  const cfg = parseUserCfg(text);
  expect(cfg.warnings).toEqual([]);
  return buildAccessModel({ ...cfg, realms: [{ realm: "pve", type: "pve" }] });
}

const roles = (model: AccessModel, who: string, path: string): Record<string, boolean> =>
  Object.fromEntries(rolesAt(model, who, path));
const privileges = (model: AccessModel, who: string, path: string, now = 0): Record<string, boolean> =>
  Object.fromEntries(privilegesAt(model, who, path, now));

const ACME = `
user:joe@pve:1:
user:ann@pve:1:
user:off@pve:0:
user:old@pve:1:1000:
token:joe@pve!full::0:
token:joe@pve!part::1:
token:joe@pve!late:1000:0:
token:off@pve!xx::0:
group:devs:joe@pve,off@pve,old@pve:
group:ops:joe@pve:
role:look:VM.Audit:
role:run:VM.PowerMgmt:
role:disk:Datastore.AllocateSpace:
pool:p1:first:100,101:local:
pool:p2::102:local:
acl:1:/vms:@devs:look:
acl:0:/vms:@ops:run:
acl:1:/vms/200:joe@pve:run:
acl:0:/vms/300:joe@pve:run:
acl:1:/vms/400:@devs:NoAccess,look:
acl:1:/pool/p1:ann@pve:look:
acl:1:/pool/p2:ann@pve:disk:
acl:1:/vms/200:joe@pve!part:look,run:
`;

describe("the walk", () => {
  const model = modelOf(ACME);

  test("groups of a user are united, and only propagating roles reach below", () => {
    expect(roles(model, "joe@pve", "/vms")).toEqual({ look: true, run: false });
    expect(roles(model, "joe@pve", "/vms/100")).toEqual({ look: true });
  });

  test("a user's own entry replaces what his groups give", () => {
    expect(roles(model, "joe@pve", "/vms/200")).toEqual({ run: true });
    expect(roles(model, "joe@pve", "/vms/300")).toEqual({ run: false });
    expect(roles(model, "joe@pve", "/vms/300/deeper")).toEqual({ look: true });
  });

  test("NoAccess at the deciding level cancels everything else", () => {
    expect(roles(model, "joe@pve", "/vms/400")).toEqual({ NoAccess: true });
    expect(privileges(model, "joe@pve", "/vms/400")).toEqual({});
  });

  test("pools lend their roles to their guests and storages, without propagation", () => {
    expect(privileges(model, "ann@pve", "/vms/100")).toEqual({ "VM.Audit": false });
    expect(privileges(model, "ann@pve", "/storage/local")).toEqual({
      "VM.Audit": false,
      "Datastore.AllocateSpace": false,
    });
    expect(privileges(model, "ann@pve", "/vms/103")).toEqual({});
  });

  test("NoAccess on a pool or on the object wins over the other side", () => {
    const both = modelOf(`${ACME}
acl:1:/vms/101:ann@pve:NoAccess:
acl:1:/pool/p2:ann@pve:NoAccess:
acl:1:/vms/102:ann@pve:look:
`);
    expect(privileges(both, "ann@pve", "/vms/101")).toEqual({});
    expect(privileges(both, "ann@pve", "/vms/102")).toEqual({});
  });

  test("a token without privilege separation is its owner", () => {
    expect(privileges(model, "joe@pve!full", "/vms/200")).toEqual({ "VM.PowerMgmt": true });
  });

  test("a privilege-separated token has what both it and its owner have", () => {
    expect(privileges(model, "joe@pve!part", "/vms/200")).toEqual({ "VM.PowerMgmt": true });
    expect(roles(model, "joe@pve!part", "/vms/200")).toEqual({ look: true, run: true });
    expect(privileges(model, "joe@pve!part", "/vms/100")).toEqual({});
  });

  test("unknown, disabled and expired users and tokens have nothing", () => {
    for (const who of ["nobody@pve", "off@pve", "off@pve!xx", "joe@pve!none"]) {
      expect(privileges(model, who, "/vms", 5)).toEqual({});
    }
    expect(privileges(model, "old@pve", "/vms", 1000)).toEqual({ "VM.Audit": true });
    expect(privileges(model, "old@pve", "/vms", 1001)).toEqual({});
    expect(privileges(model, "joe@pve!late", "/vms/200", 1001)).toEqual({});
  });

  test("what is granted can be asked whether or not its holder is let in", () => {
    const granted = (who: string) =>
      Object.fromEntries(privilegeSource(model, who, "whenever").privileges("/vms"));
    expect(granted("old@pve")).toEqual({ "VM.Audit": true });
    expect(granted("off@pve")).not.toEqual({});
    expect(granted("nobody@pve")).toEqual({});
    expect(granted("joe@pve!none")).toEqual({});
  });

  test("root@pam may do everything; its separated tokens only what their ACLs say", () => {
    const rooted = modelOf(`user:root@pam:1:
token:root@pam!sep::1:
token:root@pam!up::0:
acl:1:/vms:root@pam!sep:PVEAuditor:
`);
    expect(Object.keys(privileges(rooted, "root@pam", "/any")).toSorted()).toEqual(PRIVILEGES);
    expect(Object.keys(privileges(rooted, "root@pam!up", "/any")).toSorted()).toEqual(PRIVILEGES);
    expect(privileges(rooted, "root@pam!sep", "/vms/1")["VM.Audit"]).toBe(true);
    expect(privileges(rooted, "root@pam!sep", "/nodes")).toEqual({});
    expect(roles(rooted, "root@pam", "/")).toEqual({ Administrator: true });
  });

  test("the empty path gives nothing, a trailing slash changes nothing", () => {
    expect(roles(model, "joe@pve", "")).toEqual({});
    expect(roles(model, "joe@pve", "/vms/")).toEqual(roles(model, "joe@pve", "/vms"));
  });

  test("the ACL tree lists every path on the way", () => {
    expect([...aclNodes(model.acl)].map((node) => node.path)).toEqual([
      "/",
      "/vms",
      "/vms/200",
      "/vms/300",
      "/vms/400",
      "/pool",
      "/pool/p1",
      "/pool/p2",
    ]);
  });
});

test("asking about 20 000 guests is cheap", () => {
  const vmids = Array.from({ length: 20_000 }, (_, i) => 100 + i);
  const model = modelOf(`user:joe@pve:1:
group:g:joe@pve:
pool:p::${vmids.filter((id) => id % 2 === 0).join(",")}::
acl:1:/:@g:PVEAuditor:
acl:1:/pool/p:joe@pve:PVEVMUser:
acl:1:/vms/150:joe@pve:NoAccess:
`);
  const started = process.cpuUsage().user / 1000;
  const view = createAccessView(model, { userid: "joe@pve", authid: "joe@pve" }, 0);
  const seen = vmids.filter((vmid) => view.has(`/vms/${vmid}`, ["VM.Audit"]));
  expect(seen.length).toBe(vmids.length - 1);
  // Generous: about 30 ms on a laptop; a walk without memory takes seconds.
  expect(process.cpuUsage().user / 1000 - started).toBeLessThan(1_000);
});

test("answers do not depend on what was asked before", () => {
  const model = modelOf(ACME);
  const paths = [
    "/",
    "/vms",
    "/vms/100",
    "/vms/200",
    "/vms/300",
    "/vms/300/x",
    "/vms/400",
    "/pool/p1",
    "/storage/local",
  ];
  const actor = { userid: "joe@pve", authid: "joe@pve" };
  fc.assert(
    fc.property(fc.shuffledSubarray(paths), (order) => {
      const view = createAccessView(model, actor, 0);
      for (const path of order) {
        expect([...view.privileges(path)]).toEqual([...privilegesAt(model, actor.authid, path)]);
      }
    }),
  );
});

test("activity is about enabling and expiry", () => {
  expect(isActive(undefined, 0)).toBe(false);
  expect(isActive({ enable: false, expire: 0 }, 0)).toBe(false);
  expect(isActive({ enable: true, expire: 0 }, 99)).toBe(true);
  expect(isActive({ expire: 5 }, 6)).toBe(false);
  expect(isBuiltinRole("PVEAdmin")).toBe(true);
});
