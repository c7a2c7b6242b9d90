import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";

/** Of the engine, what whoever makes operations known needs. */
export interface OperationRegistrar {
  register<Args, State extends object>(definition: OperationDefinition<Args, State>): void;
}
