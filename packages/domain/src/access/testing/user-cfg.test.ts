import { describe, expect, test } from "vitest";
import { parseUserCfg } from "./user-cfg.ts";

describe("reading user.cfg", () => {
  test("every kind of line is understood", () => {
    const cfg = parseUserCfg(`user:joe@pve:1:1700000000:Jo%C3%A9:Doe:joe@x.org:a%3Ab:x:
token:joe@pve!ci:0:1:for CI:
group:devs:joe@pve:Developers:
role:look:VM.Audit,Sys.Audit:
pool:p:first pool:101,100:local,nfs1:
acl:1:/vms/100/:@devs,joe@pve,joe@pve!ci:look:
`);
    expect(cfg.warnings).toEqual([]);
    expect(cfg.users).toEqual([
      {
        userid: "joe@pve",
        enable: true,
        expire: 1_700_000_000,
        firstname: "Joé",
        lastname: "Doe",
        email: "joe@x.org",
        comment: "a:b",
        keys: "x",
        groups: ["devs"],
      },
    ]);
    expect(cfg.tokens).toEqual([
      { userid: "joe@pve", tokenid: "ci", privsep: true, expire: 0, comment: "for CI" },
    ]);
    expect(cfg.pools).toEqual([
      { poolid: "p", comment: "first pool", vms: [100, 101], storage: ["local", "nfs1"] },
    ]);
    expect(cfg.acl.map((entry) => [entry.path, entry.type, entry.ugid])).toEqual([
      ["/vms/100", "group", "devs"],
      ["/vms/100", "user", "joe@pve"],
      ["/vms/100", "token", "joe@pve!ci"],
    ]);
  });

  test("root@pam need not be named to have tokens and groups", () => {
    const cfg = parseUserCfg("token:root@pam!ci:0:1:\ngroup:devs:root@pam:\nuser:ann@pve:1:\n");
    expect(cfg.warnings).toEqual([]);
    expect(cfg.users).toEqual([
      { userid: "root@pam", enable: true, expire: 0, groups: ["devs"] },
      { userid: "ann@pve", enable: true, expire: 0, groups: [] },
    ]);
    expect(parseUserCfg("group:devs::\n").users).toEqual([]);
  });

  test("what cannot be understood is left out and named", () => {
    const { warnings, ...cfg } = parseUserCfg(`user:bad:1:
user:joe@pve:1:soon:
user:ann@pve:1:
token:x:0:
token:ann@pve!t:later:
token:none@pve!t:0:
group:b d:ann@pve:
group:g:who@pve:
role:r ole:VM.Audit:
role:PVEAdmin:VM.Audit:
role:r:VM.Fly:
__proto__:x:
pool:p q::100:
pool:a::100,x:1bad:
pool:b::100:
acl:1:/a b:ann@pve:r:
acl:1:/vms:ann@pve:nope:
acl:1:/vms:@none,none@pve!x:r:
nonsense
`);
    expect(warnings).toHaveLength(20);
    expect(cfg.users.map((user) => user.userid)).toEqual(["ann@pve"]);
    expect(cfg.acl).toEqual([]);
    expect(cfg.pools.map((pool) => pool.vms)).toEqual([[100], []]);
  });

  test("a line named like a method of every object is left out", () => {
    expect(parseUserCfg("valueOf\nconstructor:x\n").warnings).toEqual([
      "ignore config line: valueOf",
      "ignore config line: constructor:x",
    ]);
  });
});
