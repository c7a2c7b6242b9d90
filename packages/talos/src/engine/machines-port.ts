// How the machines' own API is reached; the cluster's certificate after the first configuration, none before.
import type { TalosMachine } from "../client/talos-client.ts";

export interface MachineAddress {
  readonly name: string;
  readonly address: string;
}

export interface Machines {
  /** With the cluster's certificate. */
  member(machine: MachineAddress, timeoutMs?: number): Promise<TalosMachine>;
  /** Without one, to whoever answers first; no other machine may take its place until it is closed. */
  stranger(machine: MachineAddress, timeoutMs?: number): Promise<TalosMachine>;
}
