import { AppError } from "./errors.ts";

/** A field of a request or an object that cannot be as it is; `text` where another sentence tells it better. */
export function invalidField(field: string, why: string, text = `${field} ${why}`): AppError {
  return new AppError("request.invalid", text, { errors: { [field]: why } });
}
