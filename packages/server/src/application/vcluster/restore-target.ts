// What a backup of a virtual cluster is to become, as a request says it.
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import { virtualClusterKind } from "@gpve/contracts/v1/kinds/virtual-cluster.ts";
import { nameProblem } from "../v1/kind-name.ts";

export interface RestoreTarget {
  readonly name: string;
  /** As the path has it. */
  readonly tenant: string | undefined;
}

/** Its name comes from a path, which no kind has looked at: one that could be a key would take that of another tenant's. */
export function requireTarget({ name, tenant }: RestoreTarget, said: string | undefined): void {
  if (tenant !== undefined && said !== undefined && said !== tenant)
    throw invalidField("tenant", `must be '${tenant}', as in the path, or left out`);
  const problem = nameProblem(virtualClusterKind, name);
  if (problem !== undefined) throw invalidField("name", problem, problem);
}
