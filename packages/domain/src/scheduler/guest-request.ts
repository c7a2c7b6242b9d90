// What a guest asks of a node, from its configuration: of one that is there, or of one that shall be made.
import { given } from "@gpve/contracts/given.ts";
import { ctDemand } from "../container/ct-demand.ts";
import type { GuestKeys } from "../guest/guest-kind.ts";
import { currentSection, type GuestRecord } from "../guest/guest-record.ts";
import { amountOf, keysOf, type Amounts } from "../quota/amounts.ts";
import { NO_ANSWERS } from "../quota/effects.ts";
import { claimOf, vmConfigOf } from "../quota/guest-demand.ts";
import { splitList } from "../schema/list.ts";
import { parseVolumeId } from "../storage/volume-id.ts";
import { effectiveValues } from "../vm/change/pending.ts";
import { cpuNeeds } from "../vm/config/cpu-needs.ts";
import { listDrives } from "../vm/config/drive.ts";
import { emptyVmConfig, type VmValues } from "../vm/config/vm-config.ts";
import { plannedValues } from "../vm/effects/planned-drives.ts";
import { vmDemand } from "../vm/vm-demand.ts";
import { VM_TYPE } from "../vm/vm-type.ts";
import {
  guestLabels,
  type Demand,
  type Needs,
  type PlacementRequest,
  type SchedulingRules,
} from "./model.ts";

/** What is not in its configuration. */
export interface GuestContext {
  readonly tenant?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly rules?: SchedulingRules | undefined;
}

/** A VM that shall be made of these keys, as a request names them. */
export function newVmRequest(vmid: number, keys: VmValues, context: GuestContext = {}): PlacementRequest {
  const values = plannedValues(keys, new Map(), NO_ANSWERS);
  return vmRequest(vmid, values, vmDemand({ ...emptyVmConfig, values }), context);
}

/** A CT that shall be made of these keys. */
export function newCtRequest(vmid: number, keys: GuestKeys, context: GuestContext = {}): PlacementRequest {
  return ctRequest(vmid, keys, ctDemand(keys), context);
}

/** A guest that is there: its volumes are made already, and a node needs to reach them only. */
export function guestRequest(guest: GuestRecord, context: GuestContext = {}): PlacementRequest {
  const { demand } = claimOf(guest);
  if (guest.type !== VM_TYPE)
    return reached(ctRequest(guest.vmid, currentSection(guest.conf), demand, context));
  return reached(vmRequest(guest.vmid, effectiveValues(vmConfigOf(guest)), demand, context));
}

/** Id of a guest's placement. */
export function placementId(guest: Pick<GuestRecord, "type" | "vmid">): string {
  return `${guest.type === VM_TYPE ? "vm" : "ct"}/${guest.vmid}`;
}

/** Storages on which it has volumes. */
export function storagesOf(request: PlacementRequest): readonly string[] {
  return Object.keys(request.needs.storages ?? {});
}

function vmRequest(
  vmid: number,
  values: VmValues,
  amounts: Amounts,
  context: GuestContext,
): PlacementRequest {
  const rules = context.rules ?? {};
  return {
    id: `vm/${vmid}`,
    kind: "vm",
    demand: demandOf(amounts, rules),
    needs: {
      content: "images",
      storages: { ...drivesOn(values), ...storageBytes(amounts) },
      bridges: bridgesOf(values),
      ...cpuNeeds(values),
      ...numaNeeds(values),
    },
    labels: labelsOf("vm", vmid, values["name"] ?? "", values["tags"], context),
    rules,
  };
}

function ctRequest(vmid: number, keys: GuestKeys, amounts: Amounts, context: GuestContext): PlacementRequest {
  const rules = context.rules ?? {};
  const nets = [...keys].filter(([key]) => /^net\d+$/.test(key)).map(([, text]) => text);
  const bridges = nets.flatMap((text) => /(?:^|,)bridge=([^,]+)/.exec(text)?.[1] ?? []);
  return {
    id: `ct/${vmid}`,
    kind: "ct",
    demand: demandOf(amounts, rules),
    needs: { content: "rootdir", storages: storageBytes(amounts), bridges: [...new Set(bridges)] },
    labels: labelsOf("ct", vmid, keys.get("hostname") ?? "", keys.get("tags"), context),
    rules,
  };
}

function demandOf(amounts: Amounts, rules: SchedulingRules): Demand {
  const gpus = Math.max(amountOf(amounts, "gpuCount"), rules.gpuCount ?? 0);
  return {
    cpu: amountOf(amounts, "cpu"),
    memory: amountOf(amounts, "memory"),
    ...(gpus === 0 ? {} : { gpus }),
  };
}

function storageBytes(amounts: Amounts): Readonly<Record<string, number>> {
  return Object.fromEntries(
    keysOf(amounts)
      .filter((key) => key.startsWith("storage/"))
      .map((key) => [key.slice("storage/".length), amountOf(amounts, key)]),
  );
}

/** CDs too, which take nothing and must be reached. */
function drivesOn(values: VmValues): Readonly<Record<string, number>> {
  const storages = listDrives(values).flatMap(({ drive }) => [
    parseVolumeId(drive.file)?.storage ?? /^([A-Za-z][\w.-]+):[\d.]+$/.exec(drive.file)?.[1] ?? [],
    parseVolumeId(drive["import-from"] ?? "")?.storage ?? [],
  ]);
  return Object.fromEntries(storages.flat().map((storage) => [storage, 0]));
}

function reached(request: PlacementRequest): PlacementRequest {
  const storages = Object.fromEntries(storagesOf(request).map((storage) => [storage, 0]));
  return { ...request, needs: { ...request.needs, storages } };
}

function bridgesOf(values: VmValues): readonly string[] {
  const nets = Object.entries(values).filter(([key]) => /^net\d+$/.test(key));
  const bridges = nets.flatMap(([, text]) => /(?:^|,)bridge=([^,]+)/.exec(text)?.[1] ?? []);
  return [...new Set(bridges)];
}

function numaNeeds(values: VmValues): Needs {
  if (values["numa"] !== "1") return {};
  const cells = Object.keys(values).filter((key) => /^numa\d+$/.test(key)).length;
  return { numaCells: Math.max(1, cells, Number(values["sockets"] ?? 1)) };
}

function labelsOf(
  kind: "vm" | "ct",
  vmid: number,
  name: string,
  tags: string | undefined,
  { tenant, labels }: GuestContext,
): Readonly<Record<string, string>> {
  return guestLabels({ kind, vmid, name, tags: splitList(tags ?? ""), ...given({ tenant, labels }) });
}
