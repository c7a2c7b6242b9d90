import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isPoolName, joinTokenid, parseTokenid, parseUserid, requireUserid, listedNames } from "./ids.ts";

describe("user and token names", () => {
  test("a user name is taken apart at its last @", () => {
    expect(parseUserid("joe@example.org@pve")).toEqual({
      userid: "joe@example.org@pve",
      name: "joe@example.org",
      realm: "pve",
    });
  });

  test.each(["", "a@", "joe", "joe@1pve", "jo e@pve", "jo:e@pve", "jo/e@pve", `${"x".repeat(61)}@pve`])(
    "%j is not a user name",
    (text) => expect(parseUserid(text)).toBeUndefined(),
  );

  test("the texts for bad user names are PVE's", () => {
    expect(() => requireUserid(undefined)).toThrow("user name '' is too short");
    expect(() => requireUserid("x".repeat(65))).toThrow("is too long (65 > 64)");
    expect(() => requireUserid("joe")).toThrow("value 'joe' does not look like a valid user name");
    expect(requireUserid("joe@pve").realm).toBe("pve");
  });

  test("a token name is its owner and its own name", () => {
    expect(parseTokenid("joe@pve!ci")).toEqual({ authid: "joe@pve!ci", userid: "joe@pve", tokenid: "ci" });
    expect(parseTokenid("joe@pve")).toBeUndefined();
    expect(parseTokenid("joe@pve!1")).toBeUndefined();
  });

  test("no text makes the parsers throw, and what they accept they give back", () => {
    const pieces = fc.array(fc.constantFrom("joe", "@", "pve", "!", "ci", ".", "-", " ", ":"), {
      maxLength: 6,
    });
    const named = fc.constantFrom("joe@pve", "j.o@ldap-1", "joe@pve!ci", "a@b@pve");
    const texts = fc.oneof(
      fc.string(),
      pieces.map((parts) => parts.join("")),
      named,
    );
    const accepted = { users: 0, tokens: 0 };
    fc.assert(
      fc.property(texts, (text) => {
        const user = parseUserid(text);
        if (user !== undefined) {
          accepted.users += 1;
          expect(`${user.name}@${user.realm}`).toBe(text);
        }
        const token = parseTokenid(text);
        if (token !== undefined) {
          accepted.tokens += 1;
          expect(joinTokenid(token.userid, token.tokenid)).toBe(text);
        }
      }),
    );
    // Texts of which none is a name would show nothing.
    expect(Math.min(accepted.users, accepted.tokens)).toBeGreaterThan(0);
  });
});

test("pools nest up to three levels", () => {
  expect(["a", "a/b", "a/b/c", ".x", "-y"].every(isPoolName)).toBe(true);
  expect(["", "/a", "a/", "a//b", "a/b/c/d", "a b"].some(isPoolName)).toBe(false);
});

test("lists are split on commas, semicolons, white space, or NUL when there is one", () => {
  expect(listedNames("a, b;c  d,,")).toEqual(["a", "b", "c", "d"]);
  expect(listedNames("a b\0c,d")).toEqual(["a b", "c,d"]);
  expect(listedNames(undefined)).toEqual([]);
});
