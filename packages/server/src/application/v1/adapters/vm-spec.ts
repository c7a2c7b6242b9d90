// The configuration inside a VirtualMachine: what is shown of it, and what applying it leads to.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { Microvm } from "@gpve/domain/guest/guest-record.ts";
import type { SchedulingRules } from "@gpve/domain/scheduler/model.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { validateParams } from "@gpve/domain/schema/validate-params.ts";
import { cloudinitPasswordNeedsHash } from "@gpve/domain/vm/cloudinit/cloudinit-password.ts";
import { vmKeySchema } from "@gpve/domain/vm/config/keys.ts";
import { readConfigUpdate } from "@gpve/domain/vm/change/config-update.ts";
import { MASKED } from "@gpve/domain/vm/change/pending.ts";
import { settledConfig } from "@gpve/domain/vm/config/settled-config.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { without } from "@gpve/domain/guest/guest-config.ts";

export interface VmSpec {
  readonly node: string;
  readonly running: boolean | undefined;
  /** The whole configuration, whether fields or keys ask for it. */
  readonly config: Readonly<Record<string, string>>;
  /** Where fields ask for a key. */
  readonly paths: ReadonlyMap<string, string>;
  readonly microvm: Microvm | undefined;
  /** About its place. */
  readonly rules: SchedulingRules | undefined;
}

/** Passwords are nobody's to read, hashed or not. */
export function shownConfig(values: VmValues): Record<string, string> {
  return values["cipassword"] === undefined ? { ...values } : { ...values, cipassword: MASKED };
}

/** Say how a VM is made, and are no part of it afterwards. */
const ABOUT_MAKING = new Set(["pool", "import-working-storage"]);
const CHANGING_METHODS = [
  "POST /nodes/{node}/qemu",
  "PUT /nodes/{node}/qemu/{vmid}/config",
  "POST /nodes/{node}/qemu/{vmid}/config",
];
const SAID_ELSEWHERE: Readonly<Record<string, string>> = {
  vmid: "is metadata.name",
  node: "is spec.node",
  start: "is spec.running",
  archive: "backups are restored by their own methods",
  digest: "is metadata.resourceVersion",
  delete: "leave the keys out instead",
};

/**
 * The methods that change VMs take more than keys: which VM is meant, how locks and disks are treated. Whoever writes a
 * configuration must not be able to say any of that.
 */
export function refuseCallParameters(config: VmValues): void {
  const errors = Object.keys(config)
    .filter((key) => vmKeySchema(key) === undefined && !ABOUT_MAKING.has(key) && isCallParameter(key))
    .map((key) => [key, `is no key of a VM's configuration; ${SAID_ELSEWHERE[key] ?? "leave it out"}`]);
  if (errors.length > 0) throw badKeys(Object.fromEntries(errors) as Record<string, string>);
}

function isCallParameter(key: string): boolean {
  return CHANGING_METHODS.some((route) => Object.hasOwn(methodByKey(route)?.parameters ?? {}, key));
}

/** Throws what a node would answer to keys and values that no VM can have. */
export function checkNewConfig(name: string, { node, config, paths }: VmSpec): void {
  readKeys(name, node, config, paths);
  requireHash(config, config);
}

export function settledVmConfig(
  name: string,
  { node, config, paths }: VmSpec,
  current: VmValues,
): Readonly<Record<string, string>> {
  const shown = shownConfig(current);
  // What was read and is given back is right as it is, keys that only the node writes too.
  const same = Object.entries(config).filter(([key, text]) => shown[key] === text);
  const own = Object.fromEntries(same.map(([key]) => [key, current[key] ?? ""]));
  const wanted = { ...readKeys(name, node, without(config, ...Object.keys(own)), paths), ...own };
  requireHash(wanted, { ...current, ...wanted });
  const settled = settledConfig(wanted, current);
  return settled["cipassword"] === current["cipassword"] ? shownConfig(settled) : settled;
}

/** As the node would store them. Those that say only how a VM is made are left out. */
function readKeys(
  name: string,
  node: string,
  config: VmValues,
  paths: ReadonlyMap<string, string>,
): VmValues {
  const method = methodByKey("POST /nodes/{node}/qemu");
  if (method === undefined) throw new AppError("internal.error", "PVE's method to make VMs is gone");
  const checked = validateParams(method, { ...config, node, vmid: name }, { source: "form" });
  if (!checked.ok) throw badKeys(checked.errors, paths);
  return readConfigUpdate(checked.params, { mayBeEmpty: true }).set;
}

function badKeys(
  errors: Readonly<Record<string, string>>,
  paths: ReadonlyMap<string, string> = new Map(),
): AppError {
  const lines = Object.entries(errors).map(
    ([key, text]) => [paths.get(key.split(".")[0] ?? key) ?? `spec.config.${key}`, text.trim()] as const,
  );
  const text = lines.map(([field, why]) => `${field}: ${why}`).join("; ");
  return new AppError("request.invalid", text, { errors: Object.fromEntries(lines) });
}

/** A node speaks of PVE's keys; whoever wrote fields is told about fields. */
export async function inWordsOfSpec<T>(paths: VmSpec["paths"], work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (err) {
    if (!isAppError(err, "request.invalid") || err.errors === undefined) throw err;
    throw badKeys(err.errors, paths);
  }
}

/** What is applied is kept in the operation's record, where no password belongs. */
function requireHash(wanted: VmValues, all: VmValues): void {
  const password = wanted["cipassword"];
  if (password === undefined || !cloudinitPasswordNeedsHash(password, all)) return;
  const hint = "give its hash, as `openssl passwd -5` makes it";
  throw new AppError("request.invalid", `config.cipassword is a password in plain text: ${hint}`, {
    errors: { "spec.config.cipassword": hint },
  });
}
