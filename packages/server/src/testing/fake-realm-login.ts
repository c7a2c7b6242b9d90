// A realm that asks twice: a password, then a code, then a word. What was answered once cannot be answered again.
import type { Challenge, LoginStep, LoginUser, RealmLogin } from "@gpve/domain/access/realm-login.ts";

export class FakeRealmLogin implements RealmLogin {
  /** By user id. */
  readonly passwords = new Map<string, string>();
  /** Who is asked for more than a password. */
  readonly asksTwice = new Set<string>();
  readonly #used = new Set<string>();
  #asked = 0;

  async begin({ userid }: LoginUser, password: string): Promise<LoginStep> {
    if (this.passwords.get(userid) !== password) return { kind: "refused", reason: "invalid credentials" };
    if (!this.asksTwice.has(userid)) return { kind: "in" };
    return { kind: "asked", challenge: { totp: true, step: 1, number: ++this.#asked } };
  }

  async answer({ userid }: LoginUser, challenge: Challenge, text: string): Promise<LoginStep> {
    const once = `${userid} ${JSON.stringify(challenge)}`;
    if (this.#used.has(once)) return { kind: "refused", reason: "answered before" };
    const expected = challenge["step"] === 1 ? "totp:123456" : "word:sesame";
    if (!this.asksTwice.has(userid) || text !== expected)
      return { kind: "refused", reason: "a wrong answer" };
    this.#used.add(once);
    if (challenge["step"] !== 1) return { kind: "in" };
    return { kind: "asked", challenge: { word: true, step: 2, number: ++this.#asked } };
  }
}
