import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Input } from "../../input.ts";

/** The parameters that `user create` and `user set` share. */
export function userFields(input: Input): {
  comment?: string;
  email?: string;
  firstname?: string;
  lastname?: string;
  groups?: string;
  expire?: number;
} {
  const expire = input.text("expire");
  return given({
    comment: input.text("comment"),
    email: input.text("email"),
    firstname: input.text("firstname"),
    lastname: input.text("lastname"),
    groups: input.text("groups"),
    expire: expire === undefined ? undefined : expireSeconds(expire),
  });
}

/** "never", a date or a time, as unix seconds. */
export function expireSeconds(text: string): number {
  if (text === "never") return 0;
  const millis = /^\d{4}-\d{2}-\d{2}([T ].+)?$/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(millis)) {
    throw new AppError("request.invalid", `"${text}" is not a date; write 2027-01-31 or never`);
  }
  return Math.floor(millis / 1000);
}
