// How somebody is let in by a realm of one type. A password may be all it takes; a realm may also ask back, once or several
// times, before it says yes or no.

export type LoginStep =
  | { readonly kind: "in" }
  /** `reason` is for the log, never for the client. */
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "asked"; readonly challenge: Challenge };

/**
 * What the client is asked. It is shown to it, signed, and comes back with the answer, so that no server has to remember
 * it: nothing secret belongs in it, and what must not be answered twice is the realm's to know.
 */
export type Challenge = Readonly<Record<string, unknown>>;

export interface LoginUser {
  /** `joe@corp` */
  readonly userid: string;
  /** `joe` */
  readonly name: string;
}

export interface RealmLogin {
  begin(user: LoginUser, password: string, signal?: AbortSignal): Promise<LoginStep>;
  /** To a challenge of this realm, for this user, that is not old: that was looked at. Refuses where it never asks. */
  answer(user: LoginUser, challenge: Challenge, text: string, signal?: AbortSignal): Promise<LoginStep>;
}
