import type { KindDeclaration } from "@gpve/contracts/v1/kind.ts";

/** What is wrong with it as a name of an object of that kind; undefined = nothing. */
export function nameProblem(
  { kind, namePattern, nameWords = namePattern }: Pick<KindDeclaration, "kind" | "namePattern" | "nameWords">,
  name: string,
): string | undefined {
  return new RegExp(namePattern, "u").test(name)
    ? undefined
    : `'${name}' is not a name of a ${kind} (${nameWords})`;
}
