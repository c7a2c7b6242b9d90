import fc from "fast-check";
import { expect, test } from "vitest";
import { isValidAclPath, normalizeAclPath } from "./acl-path.ts";

test.each([
  ["/", "/"],
  ["//", "/"],
  ["/vms/", "/vms"],
  ["vms//100", "/vms/100"],
  ["/pool/a/b/", "/pool/a/b"],
])("%j is normalised to %j", (given, normal) => expect(normalizeAclPath(given)).toBe(normal));

test.each([undefined, "", "/vms/1 0", "/vms/%20", "/ä"])("%j is no ACL path", (given) =>
  expect(normalizeAclPath(given)).toBeUndefined(),
);

test("normalising twice changes nothing more", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z0-9./_-]{0,20}$/), (text) => {
      const once = normalizeAclPath(text);
      if (once !== undefined) expect(normalizeAclPath(once)).toBe(once);
    }),
  );
});

test.each([
  "/",
  "/access",
  "/access/groups",
  "/access/groups/g1",
  "/access/realm/pve",
  "/nodes/n1",
  "/pool/a/b/c",
  "/sdn/zones/z/vnet/100",
  "/sdn/fabrics/f",
  "/sdn/prefix-lists",
  "/storage/local",
  "/vms/100",
  "/mapping/pci/gpu",
])("permissions may be set on %s", (path) => expect(isValidAclPath(path)).toBe(true));

test.each([
  "/users",
  "/access/users",
  "/vms/99",
  "/vms/abc",
  "/vms/100/x",
  "/pool/a/b/c/d",
  "/sdn/zones/z/v/0",
  "/sdn/other",
  "/nodes/n1/x",
])("permissions may not be set on %s", (path) => expect(isValidAclPath(path)).toBe(false));
