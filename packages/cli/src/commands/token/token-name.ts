import { AppError } from "@gpve/contracts/errors.ts";

/** "joe@pve!ci" as user and token. */
export function splitTokenName(text: string): { userid: string; tokenid: string } {
  const match = /^([^\s!]+@[^\s!]+)!([^\s!=]+)$/.exec(text);
  if (match?.[1] === undefined || match[2] === undefined) {
    throw new AppError("request.invalid", `"${text}" does not name a token; write user@realm!id`);
  }
  return { userid: match[1], tokenid: match[2] };
}
