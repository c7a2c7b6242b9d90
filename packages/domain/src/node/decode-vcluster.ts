// Virtual clusters in a node's report.
import { VC_PHASES } from "@gpve/contracts/v1/vc-phase.ts";
import type {
  AwakeReason,
  StandbyRow,
  StandbyRuntime,
  VirtualClusterRuntime,
  VnodeRuntime,
  VolumesRuntime,
} from "../vcluster/vcluster-runtime.ts";
import { fields, number, text, oneOf } from "./report-fields.ts";

const MAX_WHY = 1_000;
const MAX_NAME = 128;
const MOST_FIGURES = 256;

export function decodeVirtualCluster(json: unknown): VirtualClusterRuntime {
  const row = fields(json, "virtual cluster");
  const words = (name: string): Record<string, string> =>
    row[name] === undefined ? {} : { [name]: text(row, name).slice(0, MAX_WHY) };
  const numbers = numbersOf(row);
  return {
    name: text(row, "name"),
    phase: oneOf(row, "phase", VC_PHASES),
    power: oneOf(row, "power", ["hot", "warm", "cold"]),
    ...(row["asleep"] === true ? { asleep: true } : {}),
    ...(row["isBranch"] === true ? { isBranch: true } : {}),
    ...words("message"),
    ...words("endpoint"),
    ...words("version"),
    ...(row["keptAwake"] === undefined ? {} : { keptAwake: decodeAwakeReason(row["keptAwake"]) }),
    ...numbers("probedAt"),
    ...numbers("readySince"),
    ...numbers("memoryBytes"),
    ...numbers("cpuSeconds"),
    ...numbers("cores"),
    ...numbers("uptimeSeconds"),
    ...numbers("wakes"),
    ...numbers("lastWakeMs"),
    ...numbers("keysAt"),
    ...numbers("formerTrustedUntil"),
    ...(row["standby"] === undefined ? {} : { standby: decodeStandby(row["standby"]) }),
    ...(row["volumes"] === undefined ? {} : { volumes: decodeVolumes(row["volumes"]) }),
    ...(Array.isArray(row["vnodes"])
      ? { vnodes: row["vnodes"].slice(0, MOST_FIGURES).map(decodeVnode) }
      : {}),
    ...(row["pods"] === undefined
      ? {}
      : { pods: eachOf(row["pods"], "pods", (value) => Number(value) || 0) }),
    ...(row["requests"] === undefined
      ? {}
      : {
          requests: eachOf(row["requests"], "requests", (value) => {
            const figures = fields(value, "requests");
            const { buckets } = figures;
            return {
              count: number(figures, "count"),
              seconds: number(figures, "seconds"),
              ...(buckets === undefined
                ? {}
                : { buckets: eachOf(buckets, "buckets", (each) => Number(each) || 0) }),
            };
          }),
        }),
  };
}

/** Of those that are there. */
function numbersOf(row: Readonly<Record<string, unknown>>): (name: string) => Record<string, number> {
  return (name) => (row[name] === undefined ? {} : { [name]: number(row, name) });
}

function decodeAwakeReason(json: unknown): AwakeReason {
  const row = fields(json, "keptAwake");
  return { reason: text(row, "reason").slice(0, MAX_NAME), message: text(row, "message").slice(0, MAX_WHY) };
}

function decodeStandby(json: unknown): StandbyRuntime {
  const row = fields(json, "standby");
  return {
    generation: number(row, "generation"),
    isJoined: row["isJoined"] === true,
    isConnected: row["isConnected"] === true,
    revision: number(row, "revision"),
    confirmed: number(row, "confirmed"),
  };
}

export function decodeStandbyRow(json: unknown): StandbyRow {
  const row = fields(json, "standby");
  return {
    name: text(row, "name").slice(0, MAX_NAME),
    tenant: text(row, "tenant").slice(0, MAX_NAME),
    ...(row["isFed"] === true ? { isFed: true } : {}),
  };
}

function decodeVolumes(json: unknown): VolumesRuntime {
  const numbers = numbersOf(fields(json, "volumes"));
  return { ...numbers("bound"), ...numbers("waiting") };
}

function decodeVnode(json: unknown): VnodeRuntime {
  const row = fields(json, "worker");
  const numbers = numbersOf(row);
  return {
    name: text(row, "name").slice(0, MAX_NAME),
    running: row["running"] === true,
    cpus: number(row, "cpus"),
    memoryBytes: number(row, "memoryBytes"),
    pods: number(row, "pods"),
    ...numbers("volumes"),
    ...numbers("volumeBytes"),
    ...numbers("usedBytes"),
    ...numbers("cpuSeconds"),
    ...(row["accelerator"] === undefined ? {} : { accelerator: oneOf(row, "accelerator", ["kvm", "tcg"]) }),
  };
}

function eachOf<T>(json: unknown, what: string, decode: (value: unknown) => T): Record<string, T> {
  const entries = Object.entries(fields(json, what)).slice(0, MOST_FIGURES);
  return Object.fromEntries(entries.map(([name, value]) => [name.slice(0, MAX_NAME), decode(value)]));
}
