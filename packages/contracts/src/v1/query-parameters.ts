// Parameters of queries, as routes declare them.
import { Type } from "typebox";
import type { Schema } from "./object.ts";

export interface QueryParameter {
  readonly name: string;
  readonly description: string;
  readonly schema: Schema;
}

export const text = (name: string, description: string): QueryParameter => ({
  name,
  description,
  schema: Type.String(),
});

export const count = (name: string, description: string, maximum: number): QueryParameter => ({
  name,
  description,
  schema: Type.Integer({ minimum: 0, maximum }),
});
