// Typed specs as they are shown: sizes in their largest unit, lists in order, nothing said twice.
import fc from "fast-check";
import {
  addressFields,
  cpuTypeFields,
  diskFields,
  networkFields,
} from "@gpve/contracts/v1/vm-spec/fields.ts";
import type { PropertyField } from "@gpve/contracts/v1/vm-spec/fields.ts";
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";
import { propertyFormatOf } from "../../../schema/check.ts";
import { vmKeySchema } from "../../config/keys.ts";
import { formatQuantity, GIB, MIB } from "../quantity.ts";
import type { TypedVmSpec } from "../typed-spec.ts";

const WORDS: Readonly<Record<string, readonly string[]>> = {
  bridge: ["vmbr0", "vmbr12"],
  cputype: ["host", "x86-64-v2-AES"],
  flags: ["+aes", "+aes;-pcid"],
  gw: ["192.0.2.1"],
  gw6: ["2001:db8::1"],
  "import-from": ["local:100/a.raw"],
  ip: ["dhcp", "192.0.2.10/24"],
  ip6: ["auto"],
  macaddr: ["BC:24:11:00:00:01"],
  "phys-bits": ["host", "48"],
  trunks: ["2;5-9"],
  wwn: ["0x500000000000000a"],
};

/** Some of a table's fields that the key has. */
function someOf(
  key: string,
  table: readonly PropertyField[],
  always: Readonly<Record<string, unknown>> = {},
) {
  const rules = propertyFormatOf(vmKeySchema(key)?.format) ?? {};
  const model = table
    .filter(({ pve, field }) => Object.hasOwn(rules, pve) && !Object.hasOwn(always, field))
    .map(({ field, pve, type }) => [field, fieldValue(type, rules[pve] ?? {}, WORDS[pve])] as const);
  // Few at a time: each alone, and next to some others.
  const one = fc.oneof(...model.map(([field, value]) => value.map((drawn) => [field, drawn] as const)));
  return fc
    .array(one, { maxLength: 5 })
    .map((fields) => ({ ...Object.fromEntries(fields), ...always }) as Record<string, unknown>);
}

function fieldValue(
  type: PropertyField["type"],
  rule: PveSchema,
  words: readonly string[] = ["abc", "x1"],
): fc.Arbitrary<unknown> {
  if (type === "boolean") return fc.boolean();
  const min = rule.minimum ?? 1;
  if (type === "integer") return fc.integer({ min, max: rule.maximum ?? min + 60 });
  if (type === "number") return fc.constantFrom(1, 1.5, 20, 100.25);
  return fc.constantFrom(...(rule.enum ?? words));
}

const bytes = fc
  .tuple(fc.constantFrom(MIB, GIB, 1024 * GIB, 1024), fc.integer({ min: 1, max: 4000 }))
  .map(([unit, count]) => formatQuantity(unit * count));
const mib = fc.integer({ min: 16, max: 1 << 22 }).map((count) => formatQuantity(count * MIB));
const boot = fc.boolean().map((flag) => (flag ? { boot: true } : {}));

const DISK_NAMES = ["efidisk0", "ide2", "sata1", "scsi2", "scsi10", "tpmstate0", "virtio0"];

function disk(name: string): fc.Arbitrary<Record<string, unknown>> {
  const place = fc.oneof(
    fc.record({ storage: fc.constantFrom("local", "fast-zfs"), size: bytes }),
    bytes.map((size) => ({ storage: "local", volume: "local:100/vm-100-disk-0.qcow2", size })),
    fc.constantFrom(
      { volume: "none" },
      { storage: "local", volume: "local:cloudinit" },
      { volume: "/dev/sdb" },
    ),
  );
  return fc.tuple(place, someOf(name, diskFields), boot).map(([where, fields, flags]) => ({
    ...fields,
    ...where,
    ...(/^(?:efi|tpm)/.test(name) ? {} : flags),
    name,
  }));
}

function network(name: string): fc.Arbitrary<Record<string, unknown>> {
  return fc
    .tuple(someOf(name, networkFields), fc.constantFrom("virtio", "e1000"), boot)
    .map(([fields, model, flags]) => ({ ...fields, model, ...flags, name }));
}

/** Models of the cluster alone may be reported as another. */
const ofShippedModels = cpuTypeFields.filter(({ field }) => field !== "reportedModel");

const some = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });
const named = (names: readonly string[], item: (name: string) => fc.Arbitrary<Record<string, unknown>>) =>
  fc
    .record(Object.fromEntries(names.map((name) => [name, item(name)])), { requiredKeys: [] })
    .map((items) => Object.values(items) as Record<string, unknown>[])
    .filter((items) => items.length > 0);
const partly = (model: Readonly<Record<string, fc.Arbitrary<unknown>>>) =>
  fc.record(model, { requiredKeys: [] }).filter((fields) => Object.keys(fields).length > 0);

export const arbitrarySpec: fc.Arbitrary<TypedVmSpec> = fc
  .record({
    cpu: some(
      fc
        .tuple(
          partly({
            cores: fc.integer({ min: 1, max: 128 }),
            sockets: fc.integer({ min: 1, max: 4 }),
            limit: fc.constantFrom(0, 1, 1.5),
            units: fc.integer({ min: 1, max: 10_000 }),
            affinity: fc.constantFrom("0", "1-3"),
            numa: fc.boolean(),
          }),
          someOf("cpu", ofShippedModels, { type: "host" }),
        )
        .map(([own, type]) => ({ ...own, ...type })),
    ),
    memory: some(
      fc
        .tuple(
          partly({ size: mib, shares: fc.integer({ min: 0, max: 50_000 }) }),
          fc.oneof(
            fc.constant({}),
            fc.constant({ ballooning: false }),
            mib.map((minimum) => ({ minimum })),
          ),
        )
        .map(([own, balloon]) => ({ ...own, ...balloon })),
    ),
    disks: some(named(DISK_NAMES, disk)),
    networks: some(named(["net0", "net3", "net12"], network)),
    bios: some(fc.constantFrom({ type: "ovmf" }, { type: "seabios" })),
    cloudInit: some(
      partly({
        user: fc.constantFrom("debian", "root"),
        upgrade: fc.boolean(),
        sshKeys: fc.constantFrom(["ssh-ed25519 AAAA+/ me@home"], ["a", "b ü"]),
        nameservers: fc.constantFrom(["192.0.2.1"], ["192.0.2.1", "2001:db8::1"]),
        addresses: named(["ipconfig0", "ipconfig2"], (name) =>
          someOf(name, addressFields, { ip: "dhcp", ip6: "auto" }).map((fields) => ({ ...fields, name })),
        ),
        custom: fc.constant({ user: "local:snippets/a.yaml" }),
      }),
    ),
    template: some(fc.boolean()),
    scheduling: some(
      partly({
        startOnBoot: fc.boolean(),
        startOrder: fc.nat(99),
        startDelaySeconds: fc.nat(99),
        stopTimeoutSeconds: fc.nat(99),
      }),
    ),
    config: fc.constantFrom({}, { name: "web" }, { ostype: "l26", tags: "a;b" }),
  })
  .map(
    (spec) =>
      Object.fromEntries(Object.entries(spec).filter(([, part]) => part !== undefined)) as TypedVmSpec,
  );
