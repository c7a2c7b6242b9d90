import { AppError } from "@gpve/contracts/errors.ts";

export function invalidSpec(field: string, why: string): AppError {
  return new AppError("request.invalid", `spec.${field}: ${why}`, { errors: { [`spec.${field}`]: why } });
}
