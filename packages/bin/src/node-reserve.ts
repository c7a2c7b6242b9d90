// `resources` of an agent's configuration: what of the machine is not for guests.
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeReserve } from "@gpve/domain/node/runtime.ts";
import { parseQuantity } from "@gpve/domain/vm/spec/quantity.ts";
import type { AgentConfiguration } from "@gpve/kit/config/configuration.ts";

/** Throws config.invalid with the key. */
export function nodeReserve({
  reservedCPU,
  reservedMemory,
  overcommit,
}: AgentConfiguration["resources"]): NodeReserve {
  return {
    cpu: reservedCPU === undefined ? 0 : cpus(reservedCPU),
    memoryBytes: reservedMemory === undefined ? 0 : bytes(reservedMemory),
    overcommit,
  };
}

/** "1", "0.5", or "500m" in thousandths. */
function cpus(text: string): number {
  const [, whole, thousandths] = /^(?:(\d{1,4}(?:\.\d{1,3})?)|(\d{1,7})m)$/.exec(text) ?? [];
  if (whole !== undefined) return Number(whole);
  if (thousandths !== undefined) return Number(thousandths) / 1000;
  throw new AppError(
    "config.invalid",
    `resources.reservedCPU: "${text}" is no number of CPUs; write 1, 0.5 or 500m`,
  );
}

function bytes(text: string): number {
  try {
    return parseQuantity(text, "resources.reservedMemory");
  } catch (err) {
    throw new AppError("config.invalid", `resources.reservedMemory: ${(err as Error).message}`, {
      cause: err,
    });
  }
}
