import type { AppError } from "@gpve/contracts/errors.ts";
import { invalidField } from "@gpve/contracts/invalid-field.ts";

export function invalidSpec(field: string, why: string): AppError {
  return invalidField(`spec.${field}`, why, `spec.${field}: ${why}`);
}
