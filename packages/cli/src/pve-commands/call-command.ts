// Runs a command of a table: reads its words, checks them by the schema, calls its method, shows the answer.
import { isUpid } from "@gpve/client/task-wait.ts";
import type { PveVerb } from "@gpve/contracts/pve/schema.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import type { CallCommand, OptionValues, PveSession } from "./command-entry.ts";
import { fixedNames, shapeOf, type CommandShape } from "./command-shape.ts";
import type { Runnable } from "./find-command.ts";
import { followTask } from "./follow-task.ts";
import { completeValues } from "./given-values.ts";
import { outputStyle, printResult } from "./output/print-result.ts";
import { storageOf } from "./own/storage-commands.ts";
import { readOptions } from "./read-options.ts";

export async function callCommand(
  session: PveSession,
  command: Runnable,
  words: readonly string[],
): Promise<void> {
  const shape = shapeOf(command);
  const read = readOptions(words, shape);
  const isCall = "call" in command;
  const whole = isCall ? await completeValues(read, command.from ?? {}, shape, session.io) : read;
  checkValues(shape, whole);
  const { style, rest: values } = shape.formats
    ? outputStyle(whole, session.io)
    : { style: undefined, rest: whole };
  const data = isCall ? await callApi(session, command, values) : await command.own(session, values);
  if (isUpid(data)) {
    await followTask(session, data);
    return;
  }
  if (isCall && command.done !== undefined) session.line(command.done(values));
  if (command.show !== undefined && (style === undefined || style.format === "text")) {
    if (style?.quiet !== true) command.show(data, session.line, style);
  } else if (style !== undefined) printResult(data, shape.returns, style, session.line, command.columns);
}

/** As the server will, but here: nothing is asked for with parameters that make no sense. */
function checkValues(shape: CommandShape, values: OptionValues): void {
  requireValidParams({ parameters: shape.parameters, additionalProperties: false }, values, {
    source: "form",
  });
}

async function callApi(session: PveSession, command: CallCommand, values: OptionValues): Promise<unknown> {
  const [verb = "", path = ""] = (command.asTask?.(values) ?? command.call).split(" ");
  const { pve } = await session.client();
  const isHere = fixedNames(command).has("node");
  const volume = values["volume"];
  const needsStorage = command.storageOfVolume === true && values["storage"] === undefined;
  const params = {
    ...values,
    ...command.fixed,
    ...(isHere ? { node: await session.node() } : {}),
    ...(needsStorage ? { storage: storageOf(String(volume)) } : {}),
  };
  return (await pve.call(verb as PveVerb, path, params, { signal: session.io.signal })).data;
}
