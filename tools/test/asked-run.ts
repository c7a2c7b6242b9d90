// What `./gpve test` is asked to run. A word that nobody knows is refused: a strict run that is none would pass for one.
import { parseArgs } from "node:util";

const parts = ["check", "unit", "integration"] as const;
export type Part = (typeof parts)[number];

export interface AskedRun {
  readonly isLong: boolean;
  readonly isStrict: boolean;
  /** All, when none is named. */
  readonly only: Part | undefined;
}

const USAGE = `usage: ./gpve test [${parts.join("|")}] [--long] [--strict]`;

/** Throws with what is wrong and how it is right. */
export function readAskedRun(words: readonly string[]): AskedRun {
  try {
    const { values, positionals } = parseArgs({
      args: [...words],
      options: { long: { type: "boolean" }, strict: { type: "boolean" } },
      allowPositionals: true,
    });
    const [name, more] = positionals;
    const only = parts.find((part) => part === name);
    if (name !== undefined && only === undefined) throw new Error(`there is no part '${name}'`);
    if (more !== undefined) throw new Error(`one part or all of them: '${more}' is too much`);
    return { isLong: values.long === true, isStrict: values.strict === true, only };
  } catch (err) {
    // What follows in parseArgs' own words is about words that begin with a dash, which none here does.
    const [what] = (err as Error).message.split(". ");
    throw new Error(`${what}\n${USAGE}`, { cause: err });
  }
}
