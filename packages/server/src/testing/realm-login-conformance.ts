// What logins may rely on, whatever the realm.
import { expect, it } from "vitest";
import type { LoginUser, RealmLogin } from "@gpve/domain/access/realm-login.ts";

export interface RealmUnderTest {
  readonly realm: RealmLogin;
  /** Somebody whom a password lets in at once. */
  readonly user: LoginUser;
  readonly password: string;
}

export function realmLoginConformance(open: () => Promise<RealmUnderTest>): void {
  it("lets in who has the password, every time", async () => {
    const { realm, user, password } = await open();
    expect(await realm.begin(user, password)).toEqual({ kind: "in" });
    expect(await realm.begin(user, password)).toEqual({ kind: "in" });
  });

  it("refuses another password and others by it, with a reason and without failing", async () => {
    const { realm, user, password } = await open();
    const refused = { kind: "refused", reason: expect.stringMatching(/./) as string };
    expect(await realm.begin(user, `${password}x`)).toEqual(refused);
    const realmName = user.userid.slice(user.name.length);
    expect(await realm.begin({ name: "nobody9", userid: `nobody9${realmName}` }, password)).toEqual(refused);
  });

  it("refuses the answer to what it never asked", async () => {
    const { realm, user } = await open();
    expect(await realm.answer(user, { totp: true, step: 1 }, "totp:123456")).toMatchObject({
      kind: "refused",
    });
    expect(await realm.answer(user, {}, "")).toMatchObject({ kind: "refused" });
  });
}
