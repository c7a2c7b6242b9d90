// What a simulation starts from: hardware, services, settings, and the script of events.
import type { HaSettings, Load, ManagerStatus, ServiceConfig } from "../model.ts";
import type { Rules } from "../rules.ts";

export interface Scenario {
  readonly hardware: ReadonlyMap<
    string,
    { readonly power: boolean; readonly network: boolean; readonly capacity: Load }
  >;
  readonly services: ReadonlyMap<string, ServiceConfig>;
  /** Services that run when it begins, and where; absent: none. */
  readonly running?: ReadonlyMap<string, string>;
  readonly configured: ReadonlyMap<string, Load>;
  readonly measured: ReadonlyMap<string, Load>;
  readonly rules: Rules;
  readonly settings: HaSettings;
  readonly manager: ManagerStatus;
  /** One list of commands after the other, a few rounds apart. */
  readonly script: readonly (readonly string[])[];
}

export interface LogLine {
  readonly level: string;
  readonly atS: number;
  readonly who: string;
  readonly text: string;
}

export const defaultService: Omit<ServiceConfig, "node"> = {
  state: "started",
  maxRestart: 1,
  maxRelocate: 1,
  failback: true,
  autoRebalance: true,
};
