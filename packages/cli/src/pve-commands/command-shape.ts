// What a command takes: the method's parameters without what is fixed, with the output options where it has them.
import { AppError } from "@gpve/contracts/errors.ts";
import type { PveMethod, PveSchema } from "@gpve/contracts/pve/schema.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import type { CallCommand } from "./command-entry.ts";
import type { Runnable } from "./find-command.ts";

export interface CommandShape {
  readonly args: readonly string[];
  readonly isList: boolean;
  readonly parameters: Readonly<Record<string, PveSchema>>;
  readonly formats: boolean;
  readonly returns: PveSchema;
  /** Options whose value may be left out, since it is asked for then. */
  readonly asked: ReadonlySet<string>;
}

const boolean: PveSchema = { type: "boolean", optional: true };

/** PVE's options for how a result is printed. */
export const outputOptions: Readonly<Record<string, PveSchema>> = {
  "human-readable": boolean,
  noborder: boolean,
  noheader: boolean,
  "output-format": { type: "string", enum: ["text", "json", "json-pretty", "yaml"], optional: true },
  quiet: boolean,
};

export function methodOf(command: CallCommand): PveMethod {
  const method = methodByKey(command.call);
  if (method === undefined) throw new AppError("internal.error", `there is no method ${command.call}`);
  return method;
}

/** Parameters that the command fills in by itself. */
export function fixedNames(command: CallCommand): ReadonlySet<string> {
  const names = Object.keys(command.fixed ?? {});
  const isHere = command.call.includes("{node}") && !command.args.includes("node");
  return new Set(isHere ? [...names, "node"] : names);
}

export function shapeOf(command: Runnable): CommandShape {
  const formats = command.formats === true;
  const common = { args: command.args, isList: command.isList === true, formats };
  if (!("call" in command)) {
    const parameters = { ...command.parameters, ...(formats ? outputOptions : {}) };
    return { ...common, parameters, returns: command.returns ?? { type: "null" }, asked: new Set() };
  }
  const method = methodOf(command);
  const fixed = fixedNames(command);
  const own = Object.entries(method.parameters).filter(([name]) => !fixed.has(name));
  const parameters: Record<string, PveSchema> = Object.fromEntries(own);
  if (command.storageOfVolume === true) {
    parameters["storage"] = { ...parameters["storage"], optional: true };
  }
  const asked = Object.entries(command.from ?? {}).flatMap(([name, source]) =>
    source === "file" ? [] : [name],
  );
  return {
    ...common,
    parameters: { ...parameters, ...(formats ? outputOptions : {}) },
    returns: method.returns,
    asked: new Set(asked),
  };
}
